// The parts of the whole bench that are commands of their own: what each is run with, what pictures its tables make, and how long it takes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { columnsOf } from './bars.js';
import { curveOf, growthOf } from './curve.js';
import { type Figures, readFigures } from './figures.js';
import { growing, growthPlan } from './growth-plan.js';
import { builtPath } from './paths.js';

/** What a start takes of a server, of a store beside it, and until it is idle: at most, with the project's own signatures. */
export const START_SECONDS = 1.5;
export const STORE_SECONDS = 3;
export const IDLE_SECONDS = 0.2;

interface Part {
  readonly program: string;
  arguments(quick: boolean): readonly string[];
  /** Tables that it writes. How many columns tell its rows apart, and its pictures by name. */
  readonly tables: Readonly<Record<string, { readonly keys: number; readonly pictures: Pictures }>>;
  plannedSeconds(quick: boolean): number;
}

type Pictures = Readonly<Record<string, (figures: Figures) => string>>;

export const partNames = ['latency', 'start', 'reload', 'growth'] as const;
export type PartName = (typeof partNames)[number];

/** An open loop doesn't count its first half second (ACCEPT_SECONDS in load.c). */
const LATENCY_QUICK_SECONDS = 0.8;
const LATENCY_SECONDS = 4;

export const parts: Readonly<Record<PartName, Part>> = {
  latency: {
    program: 'overload.js',
    arguments: (quick) => (quick ? ['--seconds', String(LATENCY_QUICK_SECONDS), '--only', '1KB'] : []),
    tables: {
      overload: { keys: 2, pictures: { latency: curveOf } },
      'overload-others': { keys: 1, pictures: {} },
    },
    plannedSeconds(quick) {
      const [seconds, contents] = quick ? [LATENCY_QUICK_SECONDS, 1] : [LATENCY_SECONDS, 2];
      // Six loads, each with three rounds of half as long beside it; the second account twice, six looks of a second; clamd at the six rates.
      const loads = 6 * (seconds + 3 * (seconds / 2 + IDLE_SECONDS) + IDLE_SECONDS);
      const service = 2 + 1.5 * seconds + loads + 2 * seconds + 6;
      return contents * (service + 6 * (seconds + IDLE_SECONDS) + 2 * START_SECONDS + 2);
    },
  },
  start: {
    program: 'start.js',
    arguments: (quick) => (quick ? ['--rounds', '1', '--section-hashes', '0', '--file-hashes', '100000'] : []),
    tables: {
      start: {
        keys: 1,
        pictures: {
          start: (figures) =>
            columnsOf(figures, { heading: 'How soon it is ready', unit: 'seconds', of: ['ready s', 'processor s'] }),
          memory: (figures) =>
            columnsOf(figures, { heading: 'Memory when it is ready and idle', unit: 'MiB (PSS)', of: ['MiB'] }),
        },
      },
    },
    // With millions of signatures a start takes some ten seconds.
    plannedSeconds: (quick) => (quick ? 3 * (START_SECONDS + 1) + 1 : 7 * 15 + 30),
  },
  reload: {
    program: 'reload.js',
    arguments: (quick) => (quick ? ['--rounds', '1', '--seconds', '2', '--every', '1'] : []),
    tables: {
      reload: {
        keys: 1,
        pictures: {
          reload: (figures) =>
            columnsOf(figures, { heading: 'Latency beside reloads', unit: 'milliseconds', of: ['p50 ms', 'p99 ms'] }),
        },
      },
    },
    // A reload and the wait behind it end after the round.
    plannedSeconds: (quick) => START_SECONDS + 1 + (quick ? 2 + 2 + 2 : 3 * (15 + 15 + 5)),
  },
  growth: {
    program: 'growth.js',
    arguments: (quick) => (quick ? ['--quick'] : []),
    tables: { growth: { keys: 2, pictures: { growth: growthOf } } },
    plannedSeconds(quick) {
      const { rounds, roundSeconds, warmUpSeconds, paceSeconds, steps } = growthPlan(quick);
      const looks = growing.reduce((sum, name) => sum + steps[name].length, 0);
      const servers = 3 + Math.min(1, steps.mixed.length) + steps.rows.length + steps.signatures.length;
      const look = rounds * (roundSeconds + IDLE_SECONDS) + paceSeconds + 2 * IDLE_SECONDS;
      // A thousand scans a second at least, a million rows or signatures in a minute.
      const filling =
        Math.max(...steps.scans) / 5_000 +
        Math.max(0, ...steps.mixed) / 2_500 +
        (Math.max(...steps.rows) + Math.max(...steps.signatures)) / 15_000;
      return looks * look + servers * (START_SECONDS + warmUpSeconds) + 2 * STORE_SECONDS + filling;
    },
  },
};

/** Runs it to its end; its tables lie in `folder` then. It ends with `signal`. */
export async function runPart(
  name: PartName,
  { quick, database, folder, signal }: RunSetting,
): Promise<Readonly<Record<string, Figures>>> {
  const { program, tables, ...part } = parts[name];
  const given = database === null ? [] : ['--database', database];
  const args = [builtPath(program), ...part.arguments(quick), ...given, '--into', folder];
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    signal,
    killSignal: 'SIGINT',
  });
  const [code]: unknown[] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${name} ended with ${code}`);
  return Object.fromEntries(Object.keys(tables).map((table) => [table, readFigures(table, folder)]));
}

interface RunSetting {
  readonly quick: boolean;
  readonly database: string | null;
  readonly folder: string;
  readonly signal: AbortSignal;
}
