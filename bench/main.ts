// `npm run bench`: our engine and our service against a plain loop over libclamav and against clamd, in one run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { messageOfError } from '../src/error-text.js';
import { mainPath, ownSignaturesDirectory } from '../src/paths.js';
import { startClamdContestant, startRememberingClamd, startTunedClamd } from './contestants/clamd.js';
import type { Contestant, Setting } from './contestants/contestant.js';
import { startEngine, startPlainEngine } from './contestants/engine.js';
import { startBareHttp, startRestClamd } from './contestants/http.js';
import { startRaw } from './contestants/raw.js';
import {
  startForgetfulSluice,
  startForgetfulSluiceWithStores,
  startLearnedSluice,
  startNodeSluice,
  startPlainSluice,
  startRememberingSluiceClamd,
  startSluiceClamd,
  startSluiceWithStores,
} from './contestants/sluice.js';
import { startSluiceByUrl } from './contestants/url.js';
import { writeFigures } from './figures.js';
import { chooseForLearning, hasFiles, makeFileSet } from './files.js';
import { type contestantNames, type Options, plannedSeconds, readOptions } from './options.js';
import { runPart } from './parts.js';
import { type Block, describeMachine, figuresOf, formatBlock, formatPromise, type Report } from './report.js';
import { compareResults, type Results, readResults, writeResults } from './results.js';
import { type Entrant, runRounds } from './rounds.js';
import { listedScenarios, type Scenario, scenarios } from './scenarios.js';

const HELD_OUT = `Left out: rows of held-out uploads, Linux and Windows programs and documents. To have them:
  npm run prior -- fetch held-out FOLDER && npm run prior -- list FOLDER LISTS && npm run bench -- --lists LISTS`;

type Cleanup = () => Promise<void>;

/** What must be undone when the contestants of one thread count are done, however the run ends; the latest first. */
const cleanups: Cleanup[] = [];
/** And what must be undone at the end of the run. */
const lastCleanups: Cleanup[] = [];

let cleaning: Promise<void> = Promise.resolve();
let interrupted = false;
const partsEnd = new AbortController();

/** Resolves when everything is undone, also what another call has begun to undo. */
function cleanUp(list: Cleanup[]): Promise<void> {
  cleaning = cleaning.then(async () => {
    for (let next = list.pop(); next !== undefined; next = list.pop()) {
      await next().catch((error: unknown) => complain(error));
    }
  });
  return cleaning;
}

async function cleanUpAll(): Promise<void> {
  await cleanUp(cleanups);
  await cleanUp(lastCleanups);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function complain(error: unknown): void {
  process.stderr.write(`bench: ${messageOfError(error)}\n`);
}

async function keep<Started extends Contestant>(start: () => Promise<Started>): Promise<Started> {
  if (interrupted) throw new Error('interrupted');
  const starting = start();
  // Registered before it has started, so that a signal meanwhile ends it too.
  cleanups.push(async () => {
    const [outcome] = await Promise.allSettled([starting]);
    if (outcome?.status === 'fulfilled') await outcome.value.stop();
  });
  return starting;
}

/** Contestants besides raw, by name; each says with how many connections it wants to be loaded. */
const starters: Record<
  (typeof contestantNames)[number],
  (setting: Setting, connections: number) => Promise<Contestant>
> = {
  engine: startEngine,
  'engine-plain': startPlainEngine,
  sluice: startForgetfulSluice,
  'sluice-node': startNodeSluice,
  'sluice-plain': startPlainSluice,
  'sluice-stores': startForgetfulSluiceWithStores,
  'sluice-learned': startLearnedSluice,
  'sluice-cache': startSluiceWithStores,
  'sluice-url': startSluiceByUrl,
  'sluice-clamd': startSluiceClamd,
  'sluice-clamd-cache': startRememberingSluiceClamd,
  clamd: startClamdContestant,
  'clamd-cache': startRememberingClamd,
  'clamd-tuned': startTunedClamd,
  'clamd-rest': startRestClamd,
  http: startBareHttp,
};

function chosenScenarios({ whole, lists, only }: Options): readonly Scenario[] {
  const listed = lists === null ? [] : listedScenarios(lists);
  const all = lists === null || whole ? scenarios : [];
  return [...all.filter(({ name }) => only === null || only.includes(name)), ...listed];
}

async function measureThreads(options: Options, threads: number, folder: string): Promise<Omit<Report, 'date'>> {
  const databaseDirectory = resolve(options.database ?? ownSignaturesDirectory);
  const learned: Setting = { databaseDirectory, threads, folder, gatesStore: options.gatesStore };
  const setting: Setting = options.contestants.includes('sluice-learned') ? { ...learned, gatesStore: null } : learned;
  const { connections } = options;
  const raw = await keep(() => startRaw(setting));
  const contestants: Contestant[] = [raw];
  for (const name of options.contestants) {
    const own = name === 'sluice-learned' ? learned : setting;
    contestants.push(await keep(() => starters[name](own, connections)));
  }

  const blocks: Block[] = [];
  for (const scenario of chosenScenarios(options)) {
    if (!(await hasFiles(scenario))) {
      print(`\n${scenario.name}: this machine has no such file`);
      continue;
    }
    const { listPath, ...files } = await makeFileSet(scenario, folder, raw.isClean);
    const entrants: Entrant[] = [];
    for (const contestant of contestants) {
      const note = await contestant.use({ listPath, ...files });
      await contestant.run(options.warmUpSeconds);
      entrants.push({ contestant, note });
    }
    const block: Block = { scenario: scenario.name, threads, files, results: await runRounds(entrants, options) };
    print(`\n${formatBlock(block)}`);
    blocks.push(block);
  }
  return {
    machine: describeMachine(raw.engine.version),
    database: { name: options.database === null ? 'own' : 'given', signatures: raw.engine.signatures },
    rounds: options.rounds,
    secondsPerRound: options.seconds,
    blocks,
  };
}

/** Where `sluice signatures tune` has kept what it learned of files that no scenario has. */
async function learnGates(options: Options, count: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  lastCleanups.push(() => rm(folder, { recursive: true, force: true }));
  const SIGNATURES_DIR = resolve(options.database ?? ownSignaturesDirectory);
  const child = spawn(process.execPath, [mainPath, 'signatures', 'tune', ...(await chooseForLearning(count))], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], SIGNATURES_DIR, DATA_DIR: folder },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  lastCleanups.push(async () => void child.kill());
  const [code]: unknown[] = await once(child, 'exit');
  if (code !== 0) throw new Error(`sluice signatures tune ended with ${code}`);
  return join(folder, 'gates');
}

async function measure(given: Options): Promise<Report> {
  const date = new Date().toISOString();
  const { gatesLearn } = given;
  const options = gatesLearn === null ? given : { ...given, gatesStore: await learnGates(given, gatesLearn) };
  const parts: Omit<Report, 'date'>[] = [];
  for (const threads of options.threads) {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
    cleanups.push(() => rm(folder, { recursive: true, force: true }));
    parts.push(await measureThreads(options, threads, folder));
    await cleanUp(cleanups);
  }
  const [first] = parts;
  if (first === undefined) throw new Error('nothing was measured');
  return { date, ...first, blocks: parts.flatMap((part) => part.blocks) };
}

/** Those that are commands of their own, one after the other. */
async function measureParts({ parts, quick, database }: Options): Promise<Results['tables']> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  lastCleanups.push(() => rm(folder, { recursive: true, force: true }));
  let tables: Results['tables'] = {};
  for (const name of parts) {
    print(`\n${name}`);
    try {
      tables = { ...tables, ...(await runPart(name, { quick, database, folder, signal: partsEnd.signal })) };
    } catch (error) {
      // What was measured before is kept.
      if (interrupted) throw error;
      complain(error);
      process.exitCode = 1;
    }
  }
  return tables;
}

/** A document names no folder of a machine. */
function withoutFolders(command: string): string {
  return command.replaceAll(/(--(?:database|signatures|out|compare|gates-store|lists)) \S+/g, '$1 DIR');
}

async function main(): Promise<void> {
  const options = readOptions(process.argv);
  const before = options.compare === null ? null : readResults(options.compare);
  if (options.whole) {
    print(`about ${Math.ceil(plannedSeconds(options) / 60)} minutes`);
    if (options.lists === null) print(HELD_OUT);
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      interrupted = true;
      partsEnd.abort();
      void cleanUpAll().finally(() => process.exit(signal === 'SIGINT' ? 130 : 143));
    });
  }
  try {
    const report = await measure(options);
    const { cpu, cores, kernel, node, libclamav } = report.machine;
    print(`\n${cpu}, ${cores} cores, ${kernel}, Node ${node}, libclamav ${libclamav}`);
    print(
      `database: ${report.database.name}, ${report.database.signatures} signatures; medians of ${report.rounds} rounds`,
    );
    for (const line of formatPromise(report.blocks)) print(line);
    const results: Results = { ...report, tables: await measureParts(options) };
    const written = writeResults(results, options.out);
    if (before !== null) for (const line of compareResults(before, results)) print(line);
    if (options.figures !== null) {
      const asked = process.argv
        .slice(2)
        .filter((each, at, all) => each !== '--figures' && all[at - 1] !== '--figures');
      const command = ['npm run bench', ...(asked.length === 0 ? [] : ['--', ...asked])].join(' ');
      writeFigures(options.figures, { command: withoutFolders(command), ...figuresOf(report) });
    }
    print('\nwritten:');
    for (const path of written) print(path);
    if (report.blocks.some((block) => block.results.some((one) => one.invalidRounds > 0))) process.exitCode = 1;
  } catch (error) {
    // After a signal the processes end under the rounds; that is no news.
    if (!interrupted) complain(error);
    process.exitCode = 1;
  } finally {
    await cleanUpAll();
  }
}

await main();
