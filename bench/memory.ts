// `npm run bench:memory`: what Sluice and clamd hold with the same signatures when they are ready, after contents of every kind, and when they have rested.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../src/paths.js';
import { positive, whole } from '../test/fixtures/option-values.js';
import { startClamdContestant } from './contestants/clamd.js';
import { startForgetfulSluice } from './contestants/sluice.js';
import { untilIdle } from './cpu.js';
import { makeDatabase } from './database.js';
import { writeFigures } from './figures.js';
import { makeFileSet } from './files.js';
import { median } from './median.js';
import { listOf, residentOf, sumOf } from './resident.js';
import { listedScenarios, type Scenario } from './scenarios.js';

const CONNECTIONS = 8;
const THREADS = 2;
/** Threads that stand in for others have ended then, and what scans have freed is back. */
const REST_SECONDS = 20;
const looks = ['ready', 'after load', 'rested'] as const;
const forms = { sluice: startForgetfulSluice, clamd: startClamdContestant };
const MIXED: Scenario = {
  name: 'mixed',
  files: { kind: 'machine', count: 300, minBytes: 100, maxBytes: 1_000_000 },
};

interface Options {
  readonly database: string;
  readonly lists?: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly figures?: string;
}

const options: Options = new Command('npm run bench:memory --')
  .description('What Sluice and clamd hold when they are ready, after contents, and after a rest.')
  .option('--signatures, --database <dir>', 'folder with signatures, .gz files are unpacked', ownSignaturesDirectory)
  .option('--lists <dir>', 'lists of files, a path a line, each named NAME.list (default: files of the machine)')
  .option('--rounds <count>', 'starts of each', whole, 3)
  .option('--seconds <seconds>', 'of the load', positive, 15)
  .option('--figures <name>', 'keep the table under docs/figures/, for the documents')
  .parse()
  .opts();

/** The files of all lists together. */
function contents(): Scenario {
  if (options.lists === undefined) return MIXED;
  const paths = listedScenarios(options.lists).flatMap(({ files }) => (files.kind === 'listed' ? files.paths : []));
  return { name: 'lists', files: { kind: 'listed', paths } };
}

/** MiB at each look. Of Sluice that is the supervisor, the server and the embedded database. */
async function measure(name: keyof typeof forms, databaseDirectory: string, folder: string): Promise<number[]> {
  const contestant = await forms[name]({ databaseDirectory, threads: THREADS, folder }, CONNECTIONS);
  const found: number[] = [];
  const look = (): void => {
    const processes = residentOf(contestant.pid);
    found.push(sumOf(processes));
    const when = looks[found.length - 1] ?? '';
    process.stdout.write(
      `${name.padEnd(8)}${when.padEnd(12)}${sumOf(processes).toFixed(0).padStart(6)} MiB: ${listOf(processes)}\n`,
    );
  };
  try {
    await untilIdle(contestant.pid);
    look();
    await contestant.use(await makeFileSet(contents(), folder, async () => () => true));
    const { errors, firstError } = await contestant.run(options.seconds);
    if (errors > 0) throw new Error(firstError);
    look();
    await sleep(REST_SECONDS * 1000);
    look();
  } finally {
    await contestant.stop();
  }
  return found;
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-memory-'));
try {
  const database = join(folder, 'database');
  await makeDatabase(resolve(options.database), {}, database);
  const found = { sluice: [] as number[][], clamd: [] as number[][] };
  for (let round = 0; round < options.rounds; round += 1) {
    for (const name of ['sluice', 'clamd'] as const) found[name].push(await measure(name, database, folder));
  }
  const rows = Object.entries(found).map(([name, rounds]) => [
    name,
    ...looks.map((_, at) => median(rounds.map((round) => round[at] ?? Number.NaN)).toFixed(0)),
  ]);
  if (options.figures !== undefined) {
    const lists = options.lists === undefined ? '' : ' --lists DIR';
    const command = `npm run bench:memory -- --database DIR${lists} --rounds ${options.rounds}`;
    writeFigures(options.figures, { command, columns: ['MiB', ...looks], rows });
  }
  for (const row of rows) process.stdout.write(`${row.join('  ')}\n`);
} finally {
  await rm(folder, { recursive: true, force: true });
}
