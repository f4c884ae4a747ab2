// The bench's command line.
import { availableParallelism } from 'node:os';
import { Command, InvalidArgumentError } from 'commander';
import { positive, whole } from '../test/fixtures/option-values.js';
import { scenarios } from './scenarios.js';

/** The raw loop always runs: the others are measured against it. */
export const contestantNames = [
  'engine',
  'engine-plain',
  'sluice',
  'sluice-node',
  'sluice-plain',
  'sluice-stores',
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
const defaultContestants = ['engine', 'sluice', 'clamd'] as const;
type ContestantName = (typeof contestantNames)[number];

export interface Options {
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
  /** A folder of lists of files, NAME.list, in place of the scenarios. */
  readonly lists: string | null;
  readonly json: string | null;
  /** A report of an earlier run. */
  readonly compare: string | null;
  /** The name under docs/figures/ that the results get. */
  readonly figures: string | null;
}

/** About three minutes for everything. */
const QUICK = { rounds: 3, seconds: 0.4, threads: [availableParallelism()] };

const WARM_UP_SECONDS_MAX = 0.5;

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

export function readOptions(argv: readonly string[]): Options {
  let chosen: Options | null = null;
  new Command('npm run bench --')
    .description(
      'Measures our engine and service against a plain loop over libclamav and clamd, in alternating rounds.',
    )
    .option('--rounds <count>', 'rounds per scenario; medians are taken over them', whole, 5)
    .option('--seconds <seconds>', 'length of one round of one contestant', positive, 1.5)
    .option(
      '--threads <list>',
      'scan threads, each count a table of its own',
      (text) => text.split(',').map(whole),
      [1, 2],
    )
    .option('--connections <count>', 'connections of the client', whole, 32)
    .option('--signatures, --database <dir>', 'folder with signatures (default: the project’s own)')
    .option('--gates-store <dir>', 'DATA_DIR/gates of a `signatures tune`, for the contestants with gates')
    .option(
      '--gates-learn <count>',
      '`signatures tune` with so many files of this machine first, of which no scenario has one',
      whole,
    )
    .option(
      '--contestants <list>',
      `of ${contestantNames.join(', ')}; raw always runs`,
      contestantList,
      defaultContestants,
    )
    .option('--only <list>', `of ${scenarios.map(({ name }) => name).join(', ')}`, scenarioList)
    .option('--quick', 'shorter rounds, one count of threads: about three minutes')
    .option('--lists <dir>', 'in place of the scenarios: lists of files, a path a line, each named NAME.list')
    .option('--json <file>', 'write the results as JSON')
    .option('--compare <file>', 'say how the results differ from those of an earlier --json')
    .option('--figures <name>', 'keep the table under docs/figures/, for the documents')
    .action(
      ({
        quick,
        ...asked
      }: Partial<Omit<Options, 'warmUpSeconds'>> &
        Pick<Options, 'rounds' | 'seconds' | 'threads' | 'connections' | 'contestants'> & { quick?: true }) => {
        const given = quick ? { ...asked, ...QUICK } : asked;
        chosen = {
          ...given,
          warmUpSeconds: Math.min(WARM_UP_SECONDS_MAX, given.seconds),
          database: given.database ?? null,
          gatesStore: given.gatesStore ?? null,
          gatesLearn: given.gatesLearn ?? null,
          only: given.only ?? null,
          lists: given.lists ?? null,
          json: given.json ?? null,
          compare: given.compare ?? null,
          figures: given.figures ?? null,
        };
      },
    )
    .parse([...argv]);
  if (chosen === null) throw new Error('the command line was not read');
  return chosen;
}
