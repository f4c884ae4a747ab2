// What many scans a second take, on paper: the second table of docs/scale.md, from what the others say that one scan costs.
import type { Figures } from './figures.js';

/** What can't be measured on one small machine; docs/scale.md says why it is so. */
const ASSUMED = {
  /** Share of a core, or of a store, that is planned for. */
  load: 0.6,
  databaseCores: 32,
  /** Of a primary that also sends it to its standby. */
  walBytesASecond: 400e6,
  retentionDays: 400,
};
const RATES = [1_000, 10_000, 100_000, 1_000_000] as const;
const DAY_SECONDS = 86_400;

/** For one scan. */
export interface Costs {
  readonly servingUs: number;
  readonly scanningUs: number;
  readonly redisCommands: number;
  readonly redisUs: number;
  readonly databaseUs: number;
  readonly walBytes: number;
  readonly tableBytes: number;
  readonly indexBytes: number;
}

/** What each is called, to how many digits it is said, and what counts it. */
const SAID: Readonly<Record<keyof Costs, readonly [name: string, digits: number, counter: string]>> = {
  servingUs: ['serving thread, us of a core', 1, '`/proc/PID/task`'],
  scanningUs: ['scan threads, us of a core, 16 signatures', 1, '`/proc/PID/task`'],
  redisCommands: ['Redis, commands', 2, '`INFO commandstats`'],
  redisUs: ['Redis, us of its one thread', 1, '`INFO cpu`'],
  databaseUs: ['Postgres, us of its cores', 1, '`/proc/PID/stat` of all its processes'],
  walBytes: ['Postgres, bytes of its log (WAL)', 0, '`pg_current_wal_lsn`'],
  tableBytes: ['Postgres, bytes of the row', 0, '`pg_table_size`'],
  indexBytes: ['Postgres, bytes of its indexes', 0, '`pg_indexes_size`'],
};

export const COST_COLUMNS = ['for one scan', '', 'counted by'] as const;

const KEYS = [
  'servingUs',
  'scanningUs',
  'redisCommands',
  'redisUs',
  'databaseUs',
  'walBytes',
  'tableBytes',
  'indexBytes',
] as const;

export function costRows(costs: Costs): string[][] {
  return KEYS.map((key) => {
    const [name, digits, counter] = SAID[key];
    return [name, costs[key].toFixed(digits), counter];
  });
}

/** As a table says it. Throws where it has no such row. */
function costIn({ rows }: Figures, key: keyof Costs): number {
  const [name] = SAID[key];
  const row = rows.find(([each]) => each === name);
  if (row === undefined) throw new Error(`The table of costs has no row "${name}"`);
  return Number(row[1]);
}

/** Scans of what people upload that one core makes: the table `held-out`. */
function uploadsOfACore({ columns, rows }: Figures): number {
  const uploads = rows.find(([content]) => content === 'uploads') ?? [];
  return Number(uploads[columns.indexOf('Sluice')]) / Number(uploads[columns.indexOf('threads')]);
}

/** It is as old as what a scan costs. */
export function plannedFor(cost: Figures, heldOut: Figures): Figures {
  const columns = ['scans a second', ...RATES.map((rate) => rate.toLocaleString('en'))];
  return { ...cost, columns, rows: planRows((key) => costIn(cost, key), uploadsOfACore(heldOut)) };
}

function planRows(cost: (key: keyof Costs) => number, uploadsOfACore: number): string[][] {
  const { load, databaseCores, walBytesASecond, retentionDays } = ASSUMED;
  const cores = (us: number, rate: number): number => (rate * us) / 1e6 / load;
  const row = (name: string, of: (rate: number) => number, digits = 0): string[] => [
    name,
    ...RATES.map((rate) => of(rate).toFixed(digits)),
  ];
  const atLeastOne = (value: number): number => Math.max(1, Math.ceil(value));
  return [
    row('cores of nodes, 1 KB: serving', (rate) => cores(cost('servingUs'), rate), 1),
    row('cores of nodes, 1 KB: scanning', (rate) => cores(cost('scanningUs'), rate), 1),
    row('cores of nodes, what people upload: all', (rate) => rate / uploadsOfACore / load),
    row('Redis, masters by their one thread', (rate) => atLeastOne(cores(cost('redisUs'), rate))),
    row('Postgres, cores', (rate) => cores(cost('databaseUs'), rate), 1),
    row(`Postgres, primaries of ${databaseCores} cores`, (rate) =>
      atLeastOne(cores(cost('databaseUs'), rate) / databaseCores),
    ),
    row('Postgres, log, MB a second', (rate) => (rate * cost('walBytes')) / 1e6),
    row(`Postgres, primaries by ${walBytesASecond / 1e6} MB of log a second`, (rate) =>
      atLeastOne((rate * cost('walBytes')) / walBytesASecond / load),
    ),
    row(
      `Postgres, TB in ${retentionDays} days`,
      (rate) => (rate * DAY_SECONDS * retentionDays * (cost('tableBytes') + cost('indexBytes'))) / 1e12,
      1,
    ),
  ];
}
