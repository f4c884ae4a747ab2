// `npm run equivalence -- --database FOLDER`: an engine with gates against one without, on contents made for each logical signature and on clean files.
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SingleBar } from 'cli-progress';
import { Command, InvalidArgumentError } from 'commander';
import { membersOf } from '../../src/engine/clamav/gates/bundle.js';
import { databaseFiles } from '../../src/engine/databases.js';
import { type Case, type Cases, casesOf } from './cases.js';

const BATCH = 64;
const CLEAN_BYTES_MAX = 8 * 1024 * 1024;

interface Options {
  readonly database: string;
  readonly clean: readonly string[];
  readonly cleanFiles: number;
  readonly rounds: number;
  readonly most: number;
  readonly seed: number;
  readonly state?: string;
  readonly store?: string;
}

/** Where a run is; it can be gone on with. */
interface State {
  readonly seed: number;
  next: number;
  /** Places of the signatures that matched what was made for them, in the engine without gates. */
  fired: number[];
  infected: number;
  otherNames: number;
  differences: string[];
}

function wholeNumber(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw new InvalidArgumentError('must be a whole number');
  return number;
}

function readOptions(): Options {
  return new Command('equivalence')
    .description(
      'Compares an engine with gates with one without, on contents made for each logical signature and on clean files.',
    )
    .requiredOption('--database <folder>', 'the signatures')
    .option('--clean <path...>', 'folders of clean files', ['/usr/share/clamav-testfiles', '/usr'])
    .option('--clean-files <number>', 'at most so many of them', wholeNumber, 2_000)
    .option('--rounds <number>', 'so often all forms of all signatures', wholeNumber, 2)
    .option('--most <number>', 'stop after so many comparisons', wholeNumber, Number.MAX_SAFE_INTEGER)
    .option('--seed <number>', 'of what is random', wholeNumber, Date.now() % 1_000_000)
    .option('--state <file>', 'go on where a run with this file stopped')
    .option('--store <folder>', 'the files of gates, with what was learned of noise')
    .parse()
    .opts();
}

async function linesOf(database: string): Promise<string[]> {
  const texts: string[] = [];
  for (const path of await databaseFiles(database)) {
    if (path.endsWith('.ldb')) texts.push(readFileSync(path, 'latin1'));
    if (!/\.(cvd|cld|cud)$/.test(path)) continue;
    for await (const { content } of membersOf(path, (name) => name.endsWith('.ldb'))) {
      if (content !== null) texts.push(content.toString('latin1'));
    }
  }
  return texts.flatMap((text) => text.split(/\r?\n/)).filter((line) => line !== '' && !line.startsWith('#'));
}

function cleanFilesIn(folders: readonly string[], most: number): string[] {
  const paths: string[] = [];
  const visit = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (paths.length >= most * 20) return;
      if (entry.isDirectory()) visit(path);
      else if (entry.isFile() && statSync(path).size > 0 && statSync(path).size <= CLEAN_BYTES_MAX) paths.push(path);
    }
  };
  for (const folder of folders.filter((path) => existsSync(path))) visit(folder);
  const step = Math.max(1, Math.floor(paths.length / most));
  return paths.filter((_, index) => index % step === 0).slice(0, most);
}

interface Looker {
  look(contents: readonly Buffer[]): Promise<string[]>;
  readonly child: ChildProcess;
}

async function startLooker(database: string, store: string): Promise<Looker> {
  const path = fileURLToPath(new URL('./looker.js', import.meta.url));
  const child = fork(path, [database, store], { serialization: 'advanced' });
  const answer = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code, signal) => reject(new Error(`an engine's process ended with ${code ?? signal}`)));
    });
  await answer();
  return {
    child,
    async look(contents) {
      const reply = answer();
      child.send(contents);
      const message: unknown = await reply;
      child.removeAllListeners('exit');
      return verdictsIn(message);
    },
  };
}

function verdictsIn(message: unknown): string[] {
  const verdicts: unknown =
    typeof message === 'object' && message !== null ? Reflect.get(message, 'verdicts') : undefined;
  if (!Array.isArray(verdicts)) throw new Error('an engine answered something else');
  return verdicts.map(String);
}

function readState(path: string | undefined, seed: number): State {
  if (path === undefined || !existsSync(path))
    return { seed, next: 0, fired: [], infected: 0, otherNames: 0, differences: [] };
  const state: State = JSON.parse(readFileSync(path, 'utf8'));
  return state;
}

function note(
  state: State,
  fired: Set<number>,
  one: Case,
  number: number,
  plain: string,
  gated: string,
  lines: readonly string[],
): void {
  const name = one.signature === null ? undefined : lines[one.signature]?.split(';')[0];
  if (one.signature !== null && name !== undefined && plain.startsWith(`infected ${name}`)) fired.add(one.signature);
  if (plain.startsWith('infected ')) state.infected += 1;
  if (plain === gated) return;
  const areBoth = plain.startsWith('infected ') && gated.startsWith('infected ');
  // Either may be a name of several that match.
  if (areBoth) state.otherNames += 1;
  else state.differences.push(`${number} (${one.what}): ${plain} without gates, ${gated} with them`);
}

async function compare(
  options: Options,
  state: State,
  cases: Cases,
  lines: readonly string[],
  store: string,
): Promise<void> {
  const [plain, gated] = await Promise.all([startLooker(options.database, ''), startLooker(options.database, store)]);
  const fired = new Set(state.fired);
  const bar = new SingleBar({
    format: '{bar} {percentage}% {value} of {total}, {differences} differences, {eta_formatted}',
  });
  const end = Math.min(cases.count, options.most);
  bar.start(end, state.next, { differences: state.differences.length });
  try {
    while (state.next < end) {
      const numbers = Array.from({ length: Math.min(BATCH, end - state.next) }, (_, index) => state.next + index);
      const batch = numbers.map((number) => cases.at(number));
      const contents = batch.map((one) => one?.content ?? Buffer.from(' '));
      const [without, within] = await Promise.all([plain.look(contents), gated.look(contents)]);
      for (const [index, one] of batch.entries()) {
        if (one !== null)
          note(state, fired, one, numbers[index] ?? 0, without[index] ?? '', within[index] ?? '', lines);
      }
      state.next += numbers.length;
      state.fired = [...fired];
      if (options.state !== undefined) writeFileSync(options.state, JSON.stringify(state));
      bar.update(state.next, { differences: state.differences.length });
    }
  } finally {
    bar.stop();
    plain.child.disconnect();
    gated.child.disconnect();
  }
}

async function main(): Promise<void> {
  const options = readOptions();
  const state = readState(options.state, options.seed);
  const lines = await linesOf(options.database);
  const clean = cleanFilesIn(options.clean, options.cleanFiles);
  const cases = casesOf(lines, clean, state.seed, options.rounds);
  const store = options.store ?? (await mkdtemp(join(tmpdir(), 'sluice-equivalence-')));
  process.stdout.write(
    `seed ${state.seed}; ${lines.length} logical signatures, content is made for ${cases.makeable}\n`,
  );
  try {
    await compare(options, state, cases, lines, store);
  } finally {
    if (options.store === undefined) await rm(store, { recursive: true, force: true });
  }
  process.stdout.write(
    `${state.next} compared, ${state.infected} infected, ${state.fired.length} of ${lines.length} signatures fired, ` +
      `${state.otherNames} times another name, ${state.differences.length} differences (seed ${state.seed})\n`,
  );
  for (const difference of state.differences.slice(0, 50)) process.stdout.write(`${difference}\n`);
  if (state.differences.length > 0) process.exitCode = 1;
}

await main();
