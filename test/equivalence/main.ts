// `npm run equivalence -- --database FOLDER`: an engine with gates against one without, on contents made for each logical and extended signature and on clean files.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import { nameOf } from '../../src/engine/clamav/gates/signature.js';
import { whole } from '../fixtures/option-values.js';
import { type Cases, casesOf } from './cases.js';
import { type Looker, startLooker } from './looker-process.js';
import { type Logical, linesOfSlice, readLogical, writeSlice } from './slices.js';

/** Few enough that both engines are about as far, and many for each message. */
const BATCH = 256;
const CLEAN_BYTES_MAX = 8 * 1024 * 1024;
const SAVE_MS = 5_000;

interface Options {
  readonly database: string;
  readonly clean: readonly string[];
  readonly cleanFiles: number;
  readonly slices: number;
  readonly rounds: number;
  readonly most: number;
  readonly seed: number;
  readonly state?: string;
  readonly twoPasses: boolean;
  readonly learned?: string;
}

/** Where a run is; it can be gone on with. */
interface State {
  readonly seed: number;
  readonly slices: number;
  readonly rounds: number;
  slice: number;
  /** Of the slice. */
  next: number;
  compared: number;
  /** Names of the logical signatures that matched in the engine without gates. */
  fired: string[];
  /** Signatures that content was made for. */
  makeable: number;
  infected: number;
  otherNames: number;
  differences: string[];
}

function readOptions(): Options {
  return new Command('equivalence')
    .description(
      'Compares an engine with gates with one without, on contents made for each logical and extended signature and on clean files.',
    )
    .requiredOption('--database <folder>', 'the signatures')
    .option('--clean <path...>', 'folders of clean files', ['/usr/share/clamav-testfiles', '/usr'])
    .option('--clean-files <number>', 'at most so many of them', whole, 2_000)
    .option(
      '--slices <number>',
      'split the logical signatures over so many pairs of engines, one after the other',
      whole,
      40,
    )
    .option('--rounds <number>', 'so often all forms of all signatures', whole, 2)
    .option('--most <number>', 'stop after so many comparisons', whole, Number.MAX_SAFE_INTEGER)
    .option('--seed <number>', 'of what is random', whole, 1 + (Date.now() % 1_000_000))
    .option('--two-passes', 'the engine with gates matches in two passes, as with many body signatures', false)
    .option('--learned <folder>', 'where `sluice signatures tune` has kept what it learned: DATA_DIR/gates')
    .option('--state <file>', 'go on where a run with this file stopped')
    .parse()
    .opts();
}

function copyLearned(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (entry.isFile()) copyFileSync(join(from, entry.name), join(to, entry.name));
  }
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

function readState({ state: path, seed, slices, rounds }: Options): State {
  if (path !== undefined && existsSync(path)) {
    const state: State = JSON.parse(readFileSync(path, 'utf8'));
    return state;
  }
  const zero = { slice: 0, next: 0, compared: 0, fired: [], makeable: 0, infected: 0, otherNames: 0, differences: [] };
  return { seed, slices, rounds, ...zero };
}

function save(path: string | undefined, state: State): void {
  if (path === undefined) return;
  writeFileSync(`${path}.new`, JSON.stringify(state));
  renameSync(`${path}.new`, path);
}

function note(state: State, cases: Cases, number: number, plain: string, gated: string): void {
  if (plain.startsWith('infected ')) state.infected += 1;
  if (plain === gated) return;
  const areBoth = plain.startsWith('infected ') && gated.startsWith('infected ');
  // Either may be a name of several that match.
  if (areBoth) state.otherNames += 1;
  else {
    const where = `slice ${state.slice}, number ${number} (${cases.describe(number)})`;
    state.differences.push(`${where}: ${plain} without gates, ${gated} with them`);
  }
}

interface Comparison {
  readonly options: Options;
  readonly state: State;
  readonly fired: Set<string>;
  /** Names of all logical signatures. */
  readonly names: ReadonlySet<string>;
  readonly bar: SingleBar;
}

async function compareSlice(comparison: Comparison, cases: Cases, plain: Looker, gated: Looker): Promise<void> {
  const { options, state, fired, names, bar } = comparison;
  let savedMs = performance.now();
  while (state.next < cases.count && state.compared < options.most) {
    const range = { from: state.next, to: Math.min(cases.count, state.next + BATCH) };
    const [without, within] = await Promise.all([plain.look(range), gated.look(range)]);
    for (const [index, verdict] of without.entries()) {
      const name = /^infected (.*?)(\.UNOFFICIAL)?$/.exec(verdict)?.[1];
      if (name !== undefined && names.has(name)) fired.add(name);
      note(state, cases, range.from + index, verdict, within[index] ?? '');
    }
    state.compared += range.to - range.from;
    state.next = range.to;
    bar.update(state.compared, { differences: state.differences.length });
    if (performance.now() - savedMs < SAVE_MS) continue;
    savedMs = performance.now();
    state.fired = [...fired];
    save(options.state, state);
  }
}

async function compare(options: Options, state: State, logical: Logical, clean: readonly string[]): Promise<void> {
  const names = new Set([...logical.lines, ...logical.triggers].map(nameOf));
  const fired = new Set(state.fired);
  const bar = new SingleBar({
    format: '{bar} {percentage}% {value} of about {total}, {differences} differences, {eta_formatted}',
  });
  for (let isFirst = true; state.slice < state.slices && state.compared < options.most; isFirst = false) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-equivalence-'));
    const database = join(folder, 'database');
    const lines = linesOfSlice(logical.lines, state.slice, state.slices);
    writeSlice(logical, lines, database);
    writeFileSync(join(folder, 'lines'), lines.join('\n'), 'latin1');
    const cleanFiles = clean.filter((_, index) => index % state.slices === state.slice);
    const order = {
      linesPath: join(folder, 'lines'),
      triggers: linesOfSlice(logical.triggers, state.slice, state.slices),
      cleanFiles,
      seed: state.seed,
      rounds: state.rounds,
    };
    const cases = casesOf(order);
    if (isFirst)
      bar.start(Math.min(cases.count * state.slices, options.most), state.compared, {
        differences: state.differences.length,
      });
    if (options.learned !== undefined) copyLearned(options.learned, join(folder, 'gates'));
    const [plain, gated] = await Promise.all([
      // libclamav as it is by default.
      startLooker({ database, store: null, cases: order, singlePass: false }),
      startLooker({ database, store: join(folder, 'gates'), cases: order, singlePass: !options.twoPasses }),
    ]);
    try {
      await compareSlice({ options, state, fired, names, bar }, cases, plain, gated);
    } finally {
      await Promise.all([plain.end(), gated.end()]);
      rmSync(folder, { recursive: true, force: true });
    }
    if (state.next >= cases.count) {
      state.makeable += cases.makeable;
      state.slice += 1;
      state.next = 0;
    }
    state.fired = [...fired];
    save(options.state, state);
  }
  bar.stop();
}

async function main(): Promise<void> {
  const options = readOptions();
  const state = readState(options);
  const logical = await readLogical(options.database);
  const clean = cleanFilesIn(options.clean, options.cleanFiles);
  const { seed, slices } = state;
  process.stdout.write(`seed ${seed}; ${logical.lines.length} signatures in ${slices} slices\n`);
  await compare(options, state, logical, clean);
  process.stdout.write(
    `${state.compared} compared, ${state.infected} infected, content was made for ${state.makeable} signatures, ` +
      `${state.fired.length} of ${logical.lines.length} fired, ` +
      `${state.otherNames} times another name, ${state.differences.length} differences (seed ${seed})\n`,
  );
  for (const difference of state.differences.slice(0, 50)) process.stdout.write(`${difference}\n`);
  if (state.differences.length > 0) process.exitCode = 1;
}

await main();
