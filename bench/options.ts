// The bench's command line.
import { availableParallelism } from 'node:os';
import { Command, InvalidArgumentError } from 'commander';
import { positive, whole } from '../test/fixtures/option-values.js';
import { TRIAL_SECONDS } from './contestants/socket-client.js';
import { IDLE_SECONDS, type PartName, partNames, parts, START_SECONDS, STORE_SECONDS } from './parts.js';
import { scenarios } from './scenarios.js';

/** The raw loop always runs: the others are measured against it. */
export const contestantNames = [
  'engine',
  'engine-plain',
  'sluice',
  'sluice-node',
  'sluice-plain',
  'sluice-stores',
  'sluice-learned',
  'sluice-cache',
  'sluice-url',
  'sluice-clamd',
  'sluice-clamd-cache',
  'clamd',
  'clamd-cache',
  'clamd-tuned',
  'clamd-rest',
  'http',
] as const;
type ContestantName = (typeof contestantNames)[number];

/** Of the whole table. */
const wholeContestants: readonly ContestantName[] = [
  'engine',
  'sluice',
  'sluice-learned',
  'sluice-cache',
  'sluice-url',
  'sluice-clamd',
  'clamd',
  'clamd-cache',
  'clamd-rest',
];
/** Of a table of chosen rows. */
const fewContestants: readonly ContestantName[] = ['engine', 'sluice', 'clamd'];

export interface Options {
  /** All contestants and scenarios, and the parts that are commands of their own. Where rows are chosen it is one table. */
  readonly whole: boolean;
  readonly quick: boolean;
  readonly parts: readonly PartName[];
  readonly rounds: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly threads: readonly number[];
  readonly connections: number;
  /** Null: the project's own signatures. */
  readonly database: string | null;
  /** Null: gates start with nothing learned. */
  readonly gatesStore: string | null;
  /** Null: nothing is learned before. */
  readonly gatesLearn: number | null;
  readonly contestants: readonly ContestantName[];
  /** Null: all scenarios. */
  readonly only: readonly string[] | null;
  /** A folder of lists of files, NAME.list, beside the scenarios; where rows are chosen, in place of them. */
  readonly lists: string | null;
  /** Where the results go; null: a folder of this run under bench-results/. */
  readonly out: string | null;
  /** The bench.json of an earlier run. */
  readonly compare: string | null;
  /** The name under docs/figures/ that the results get. */
  readonly figures: string | null;
}

/** Three minutes for everything. With less to warm up the service runs code that isn't compiled yet: it seems half as fast as it is. */
const QUICK = { rounds: 2, seconds: 0.2, warmUpSeconds: 0.8, threads: [availableParallelism()] };
const QUICK_SCENARIOS: readonly string[] = ['1KB', '1KB-again', '100KB'];
/** To learn takes longer than all of its rows. */
const quickContestants = wholeContestants.filter((name) => name !== 'sluice-learned');

const WARM_UP_SECONDS_MAX = 0.5;
/** Of this machine, for `sluice-learned`. */
const LEARNED_FILES = 100;
/** With the choice of files. */
const LEARNING_SECONDS = 10;

/** 1, 2, 4 and so on up to the cores of the machine. */
function threadCounts(): readonly number[] {
  const cores = availableParallelism();
  const powers = Array.from({ length: Math.ceil(Math.log2(cores)) }, (_, power) => 2 ** power);
  return [...powers, cores];
}

/** What a run takes at most with the project's own signatures, without the build and without lists. */
export function plannedSeconds({ rounds, seconds, warmUpSeconds, ...run }: Options): number {
  const contestants = run.contestants.length + 1;
  const bySocket = run.contestants.filter((name) => name.includes('clamd') && name !== 'clamd-rest').length;
  // By a socket both ways are tried, twice.
  const scenario = contestants * (warmUpSeconds + rounds * (seconds + IDLE_SECONDS)) + bySocket * 4 * TRIAL_SECONDS;
  const perThreads = contestants * START_SECONDS + STORE_SECONDS + (run.only ?? scenarios).length * scenario;
  const learning = run.gatesLearn === null ? 0 : LEARNING_SECONDS;
  const others = run.parts.reduce((sum, name) => sum + parts[name].plannedSeconds(run.quick), 0);
  return learning + run.threads.length * perThreads + others;
}

function contestantList(text: string): readonly ContestantName[] {
  const asked = text.split(',');
  const unknown = asked.find((name) => name !== 'raw' && !contestantNames.some((known) => known === name));
  if (unknown !== undefined) throw new InvalidArgumentError(`There is no contestant "${unknown}".`);
  return contestantNames.filter((name) => asked.includes(name));
}

function scenarioList(text: string): readonly string[] {
  const asked = text.split(',');
  const unknown = asked.find((name) => !scenarios.some((known) => known.name === name));
  if (unknown !== undefined) throw new InvalidArgumentError(`There is no scenario "${unknown}".`);
  return asked;
}

function partList(text: string): readonly PartName[] {
  const asked = text.split(',');
  const unknown = asked.find((name) => name !== 'none' && !partNames.some((known) => known === name));
  if (unknown !== undefined) throw new InvalidArgumentError(`There is no part "${unknown}".`);
  return partNames.filter((name) => asked.includes(name));
}

type Asked = Partial<Omit<Options, 'warmUpSeconds'>> &
  Pick<Options, 'rounds' | 'seconds' | 'threads' | 'connections' | 'quick'>;

function filled(asked: Asked): Options {
  const whole = asked.only === undefined && asked.contestants === undefined && asked.figures === undefined;
  const usual = { ...asked, warmUpSeconds: Math.min(WARM_UP_SECONDS_MAX, asked.seconds) };
  const given = asked.quick ? { ...usual, ...QUICK } : usual;
  const all = given.quick ? quickContestants : wholeContestants;
  const contestants = given.contestants ?? (whole ? all : fewContestants);
  const learns = contestants.includes('sluice-learned') && given.gatesStore === undefined;
  return {
    ...given,
    whole,
    parts: given.parts ?? (whole ? partNames : []),
    contestants,
    only: given.only ?? (whole && given.quick ? QUICK_SCENARIOS : null),
    database: given.database ?? null,
    gatesStore: given.gatesStore ?? null,
    gatesLearn: given.gatesLearn ?? (learns ? LEARNED_FILES : null),
    lists: given.lists ?? null,
    out: given.out ?? null,
    compare: given.compare ?? null,
    figures: given.figures ?? null,
  };
}

export function readOptions(argv: readonly string[]): Options {
  let chosen: Options | null = null;
  new Command('npm run bench --')
    .description(
      'Measures our engine and service against a plain loop over libclamav and clamd, in alternating rounds; then latency by load, start, memory, reloads and growth. With --only, --contestants or --figures: one table of what they choose.',
    )
    .option('--rounds <count>', 'rounds per scenario; medians are taken over them', whole, 5)
    .option('--seconds <seconds>', 'length of one round of one contestant', positive, 1.5)
    .option(
      '--threads <list>',
      'scan threads, each count a table of its own',
      (text) => text.split(',').map(whole),
      threadCounts(),
    )
    .option('--connections <count>', 'connections of the client', whole, 32)
    .option('--signatures, --database <dir>', 'folder with signatures (default: the project’s own)')
    .option('--gates-store <dir>', 'DATA_DIR/gates of a `signatures tune`, for the contestants with gates')
    .option(
      '--gates-learn <count>',
      '`signatures tune` with so many files of this machine first, of which no scenario has one',
      whole,
    )
    .option('--contestants <list>', `of ${contestantNames.join(', ')}; raw always runs`, contestantList)
    .option('--only <list>', `of ${scenarios.map(({ name }) => name).join(', ')}`, scenarioList)
    .option(
      '--parts <list>',
      `of ${partNames.join(', ')}, or none: what follows the table (default: all of them)`,
      partList,
    )
    .option('--quick', 'fewer rows, shorter rounds, one count of threads: three minutes', false)
    .option(
      '--lists <dir>',
      'rows of lists of files, a path a line, each named NAME.list, as `npm run prior` makes them',
    )
    .option('--out <dir>', 'the folder for bench.json and the pictures (default: one of this run under bench-results/)')
    .option('--compare <file>', 'say how the results differ from the bench.json of an earlier run')
    .option('--figures <name>', 'keep the table under docs/figures/, for the documents')
    .action((asked: Asked) => {
      chosen = filled(asked);
    })
    .parse([...argv]);
  if (chosen === null) throw new Error('the command line was not read');
  return chosen;
}
