// `npm run bench:cores`: where one serving thread is the limit. First with the engine, on this machine's cores; then with an engine that sleeps, for the slope.
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, cpus, release, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { ownSignaturesDirectory } from '../src/paths.js';
import { positive, whole } from '../test/fixtures/option-values.js';
import { type Division, type Row, runDivisions, type Setting } from './cores-run.js';
import { writeFigures } from './figures.js';
import { type FileSet, makeFileSet } from './files.js';
import { scenarios } from './scenarios.js';

const CONTENTS = ['1KB', '100KB', 'mixed'];
const cores = availableParallelism();

interface Options {
  /** Default: both. */
  readonly part?: 'cores' | 'slope';
  readonly processes: readonly number[];
  readonly threads: readonly number[];
  readonly engineSleepMs: readonly number[];
  readonly sleepingThreads: readonly number[];
  readonly rounds: number;
  readonly seconds: number;
  /** Default: the project’s own signatures. */
  readonly database?: string;
  /** Default: nothing was learned. */
  readonly gatesStore?: string;
  readonly figures: boolean;
}

const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** 1, 2, 4, ... and all cores. */
function doublings(limit: number): readonly number[] {
  const counts = [];
  for (let count = 1; count < limit; count *= 2) counts.push(count);
  return [...counts, limit];
}

function listOf(read: (text: string) => number) {
  return (text: string): readonly number[] => {
    const values = text.split(',').map(read);
    if (new Set(values).size < values.length) throw new InvalidArgumentError('Each number must be there once.');
    return values;
  };
}

function readOptions(argv: readonly string[]): Options {
  return new Command('npm run bench:cores --')
    .description(
      'Measures where one serving thread is the limit. Scans of 1 KB, of 100 KB and of files as they are, with Postgres and Redis.',
    )
    .addOption(
      new Option('--part <part>', 'with the engine alone, or with one that sleeps alone (default: both)').choices([
        'cores',
        'slope',
      ]),
    )
    .option('--processes <list>', 'server processes', listOf(whole), doublings(cores))
    .option(
      '--threads <list>',
      'scan threads of each, at most as many in all as cores',
      listOf(whole),
      doublings(cores),
    )
    .option('--engine-sleep-ms <list>', 'how long the engine sleeps for a content', listOf(positive), [1, 2, 5])
    .option('--sleeping-threads <list>', 'scan threads that sleep', listOf(whole), [1, 2, 4, 8, 16, 32])
    .option('--rounds <count>', 'rounds of each; medians are taken over them', whole, 5)
    .option('--seconds <seconds>', 'length of a round', positive, 1)
    .option('--signatures, --database <dir>', 'folder with signatures (default: the project’s own)')
    .option('--gates-store <dir>', 'what gates have learned, as in DATA_DIR/gates (default: nothing)')
    .option('--figures', 'keep the table under docs/figures/, for the documents', false)
    .parse([...argv])
    .opts<Options>();
}

async function measureCores(given: Options, setting: Setting, fileSets: readonly FileSet[]): Promise<void> {
  const divisions = given.processes.flatMap((processes) =>
    given.threads.filter((threads) => threads * processes <= cores).map((threads) => ({ processes, threads })),
  );
  const rows = await runDivisions(setting, divisions, fileSets);
  for (const { scenario } of fileSets) printRows({ scenario, engine: 'it scans' }, rows.get(scenario) ?? []);
}

async function measureSlope(given: Options, setting: Setting, fileSets: readonly FileSet[]): Promise<void> {
  const divisions: readonly Division[] = given.sleepingThreads.map((threads) => ({ processes: 1, threads }));
  for (const engineSleepMs of given.engineSleepMs) {
    const rows = await runDivisions({ ...setting, engineSleepMs }, divisions, fileSets);
    for (const { scenario } of fileSets) {
      const some = rows.get(scenario) ?? [];
      printRows({ scenario, engine: `it sleeps for ${engineSleepMs} ms` }, some);
      printSaturation(some, engineSleepMs);
    }
  }
}

const columns = [
  'processes',
  'threads',
  'scans/s',
  'min-max',
  'us serving',
  'us scanning',
  'busiest',
  'waits',
  'least',
  'p50 ms',
];

/** Of all tables, each row behind its content and what the engine does. */
const kept: string[][] = [];

function printRows(
  { scenario, engine }: { readonly scenario: string; readonly engine: string },
  rows: readonly Row[],
): void {
  print(`\n${scenario}, the engine: ${engine}`);
  const cells = rows.map((row) => [
    row.processes.toFixed(0),
    row.threads.toFixed(0),
    row.rate.toFixed(0),
    `${row.lowest.toFixed(0)}-${row.highest.toFixed(0)}`,
    row.servingUs.toFixed(0),
    row.scanningUs.toFixed(0),
    percent(row.busiestRan),
    percent(row.busiestWaited),
    percent(row.leastRan),
    (row.p50Us / 1000).toFixed(2),
  ]);
  kept.push(...cells.map((row) => [scenario, engine, ...row]));
  const widths = columns.map((name, at) => Math.max(name.length, ...cells.map((row) => row[at]?.length ?? 0)));
  for (const row of [columns, ...cells]) print(row.map((cell, at) => cell.padStart(widths[at] ?? 0)).join('  '));
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

/** A serving thread has to itself what the kernel lets it have of a core: how many scans that would be, and how many threads make as many. */
function printSaturation(rows: readonly Row[], engineSleepMs: number): void {
  const fullest = rows.reduce((one, other) => (other.rate > one.rate ? other : one));
  const [alone] = rows;
  if (alone === undefined) return;
  const limit = 1e6 / fullest.servingUs;
  const each = alone.rate / alone.threads;
  print(
    `one serving thread with a core of its own: ${limit.toFixed(0)} scans/s, as much as ${(limit / each).toFixed(1)} threads ` +
      `of ${each.toFixed(0)} scans/s each (${engineSleepMs} ms asked for)`,
  );
}

const given = readOptions(process.argv);
const folder = await mkdtemp(join(tmpdir(), 'sluice-cores-'));
try {
  print(`${cpus()[0]?.model ?? 'unknown'}, ${cores} cores, Linux ${release()}, Node ${process.version}`);
  const setting: Setting = {
    databaseDirectory: resolve(given.database ?? ownSignaturesDirectory),
    gatesStore: given.gatesStore === undefined ? null : resolve(given.gatesStore),
    folder,
    rounds: given.rounds,
    seconds: given.seconds,
    engineSleepMs: null,
  };
  const fileSets: FileSet[] = [];
  for (const scenario of scenarios.filter(({ name }) => CONTENTS.includes(name))) {
    fileSets.push(await makeFileSet(scenario, folder, async () => () => true));
  }
  if (given.part !== 'slope') await measureCores(given, setting, fileSets);
  if (given.part !== 'cores') await measureSlope(given, setting, fileSets);
  if (given.figures) {
    const command = `npm run bench:cores --${given.database === undefined ? '' : ' --database DIR'} --figures`;
    writeFigures('cores', { command, columns: ['content', 'the engine', ...columns], rows: kept });
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
