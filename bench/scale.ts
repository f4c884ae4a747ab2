// `npm run bench:scale`: what one scan of 1 KB costs each part of a service with Postgres and Redis, by counters of the kernel and of the stores, not by time that has gone by, and what
// that makes of 1,000,000 scans a second. With `--figures` both tables are kept for docs/scale.md.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Command } from 'commander';
import postgres from 'postgres';
import { ownSignaturesDirectory } from '../src/paths.js';
import { positive } from '../test/fixtures/option-values.js';
import { startPostgres } from '../test/fixtures/postgres.js';
import { type RedisServer, startRedis } from '../test/fixtures/redis.js';
import { startSluice } from './contestants/sluice.js';
import { cpuSeconds, descendants, threadSeconds, untilIdle } from './cpu.js';
import { readFigures, tableOf, writeFigures } from './figures.js';
import { makeFileSet } from './files.js';

const { figures, seconds: SECONDS } = new Command('npm run bench:scale --')
  .description('What a scan costs each part, counted here, and what many of them would cost: docs/scale.md.')
  .option('--figures', 'keep the tables under docs/figures/, for the documents', false)
  .option('--seconds <count>', 'of a measurement', positive, 20)
  .parse()
  .opts<{ figures: boolean; seconds: number }>();
const WARM_UP_SECONDS = 3;
const CONNECTIONS = 32;
/** Rows are in the database by then. */
const SETTLE_MS = 3_000;

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
interface Costs {
  readonly servingUs: number;
  readonly scanningUs: number;
  readonly redisCommands: number;
  readonly redisUs: number;
  readonly databaseUs: number;
  readonly walBytes: number;
  readonly tableBytes: number;
  readonly indexBytes: number;
}

/** Counters that only grow. */
interface Counted {
  readonly serving: number;
  readonly scanning: number;
  readonly redisCommands: number;
  readonly redisSeconds: number;
  readonly databaseSeconds: number;
  readonly walBytes: number;
  readonly rows: number;
}

async function redisCounts({ client }: RedisServer): Promise<{ readonly commands: number; readonly seconds: number }> {
  const stats = await client.info('commandstats');
  const cpu = await client.info('cpu');
  const calls = [...stats.matchAll(/^cmdstat_(?:evalsha|eval|get|set|setex):calls=(\d+)/gm)];
  const used = [...cpu.matchAll(/^used_cpu_(?:sys|user)_main_thread:([\d.]+)/gm)];
  const sum = (all: readonly RegExpMatchArray[]): number => all.reduce((total, [, each]) => total + Number(each), 0);
  return { commands: sum(calls), seconds: sum(used) };
}

async function measure(): Promise<Costs> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-scale-'));
  const [database, redis] = [await startPostgres(), await startRedis()];
  const url = await database.database();
  const setting = { databaseDirectory: ownSignaturesDirectory, threads: availableParallelism(), folder };
  const env = { DATABASE_URL: url, REDIS_URL: redis.url, VERDICT_CACHE_MB: '0' };
  const sluice = await startSluice(setting, CONNECTIONS, env);
  const sql = postgres(url, { max: 1 });
  try {
    const [postmaster = ''] = (await readFile(join(database.dataFolder, 'postmaster.pid'), 'utf8')).split('\n');
    const [, server = 0] = descendants(sluice.pid);
    const counted = async (): Promise<Counted> => {
      const threads = [...threadSeconds(server)];
      const of = (isMain: boolean): number =>
        threads.reduce((sum, [name, used]) => sum + (name.endsWith(', main') === isMain ? used : 0), 0);
      const { commands, seconds } = await redisCounts(redis);
      const [row] = await sql<{ wal: number; rows: number }[]>`
        SELECT (pg_current_wal_lsn() - '0/0')::float8 AS wal, (SELECT count(*) FROM scans)::float8 AS rows`;
      return {
        serving: of(true),
        scanning: of(false),
        redisCommands: commands,
        redisSeconds: seconds,
        databaseSeconds: cpuSeconds(Number(postmaster)),
        walBytes: row?.wal ?? 0,
        rows: row?.rows ?? 0,
      };
    };
    const scenario = { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } } as const;
    await sluice.use(await makeFileSet(scenario, folder, async () => () => true));
    await sluice.run(WARM_UP_SECONDS);
    await settled(sluice.pid);
    const before = await counted();
    const { scans, errors, firstError } = await sluice.run(SECONDS);
    if (errors > 0) throw new Error(firstError);
    await settled(sluice.pid);
    const after = await counted();
    const each = (name: keyof Counted): number => (after[name] - before[name]) / scans;
    const [size] = await sql<{ table: number; indexes: number }[]>`
      SELECT sum(pg_table_size(inhrelid))::float8 AS table, sum(pg_indexes_size(inhrelid))::float8 AS indexes
      FROM pg_inherits WHERE inhparent = 'scans'::regclass`;
    return {
      servingUs: each('serving') * 1e6,
      scanningUs: each('scanning') * 1e6,
      redisCommands: each('redisCommands'),
      redisUs: each('redisSeconds') * 1e6,
      databaseUs: each('databaseSeconds') * 1e6,
      walBytes: each('walBytes'),
      tableBytes: (size?.table ?? 0) / after.rows,
      indexBytes: (size?.indexes ?? 0) / after.rows,
    };
  } finally {
    await sql.end();
    await sluice.stop();
    await redis.stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function settled(pid: number): Promise<void> {
  await untilIdle(pid);
  await delay(SETTLE_MS);
}

function costRows(costs: Costs): string[][] {
  return [
    ['serving thread, us of a core', costs.servingUs.toFixed(0), '`/proc/PID/task`'],
    ['scan threads, us of a core, 16 signatures', costs.scanningUs.toFixed(0), '`/proc/PID/task`'],
    ['Redis, commands', costs.redisCommands.toFixed(2), '`INFO commandstats`'],
    ['Redis, us of its one thread', costs.redisUs.toFixed(1), '`INFO cpu`'],
    ['Postgres, us of its cores', costs.databaseUs.toFixed(0), '`/proc/PID/stat` of all its processes'],
    ['Postgres, bytes of its log (WAL)', costs.walBytes.toFixed(0), '`pg_current_wal_lsn`'],
    ['Postgres, bytes of the row', costs.tableBytes.toFixed(0), '`pg_table_size`'],
    ['Postgres, bytes of its indexes', costs.indexBytes.toFixed(0), '`pg_indexes_size`'],
  ];
}

/** Scans of what people upload that one core makes: the table `held-out`. */
function uploadsOfACore(): number {
  const { columns, rows } = readFigures('held-out');
  const uploads = rows.find(([content]) => content === 'uploads') ?? [];
  const rate = Number(uploads[columns.indexOf('Sluice')]);
  const threads = Number(uploads[columns.indexOf('threads')]);
  return rate / threads;
}

function scaleRows(costs: Costs): string[][] {
  const { load, databaseCores, walBytesASecond, retentionDays } = ASSUMED;
  const cores = (us: number, rate: number): number => (rate * us) / 1e6 / load;
  const row = (name: string, of: (rate: number) => number, digits = 0): string[] => [
    name,
    ...RATES.map((rate) => of(rate).toFixed(digits)),
  ];
  const atLeastOne = (value: number): number => Math.max(1, Math.ceil(value));
  return [
    row('cores of nodes, 1 KB: serving', (rate) => cores(costs.servingUs, rate), 1),
    row('cores of nodes, 1 KB: scanning', (rate) => cores(costs.scanningUs, rate), 1),
    row('cores of nodes, what people upload: all', (rate) => rate / uploadsOfACore() / load),
    row('Redis, masters by their one thread', (rate) => atLeastOne(cores(costs.redisUs, rate))),
    row('Postgres, cores', (rate) => cores(costs.databaseUs, rate), 1),
    row(`Postgres, primaries of ${databaseCores} cores`, (rate) =>
      atLeastOne(cores(costs.databaseUs, rate) / databaseCores),
    ),
    row('Postgres, log, MB a second', (rate) => (rate * costs.walBytes) / 1e6),
    row(`Postgres, primaries by ${walBytesASecond / 1e6} MB of log a second`, (rate) =>
      atLeastOne((rate * costs.walBytes) / walBytesASecond / load),
    ),
    row(
      `Postgres, TB in ${retentionDays} days`,
      (rate) => (rate * DAY_SECONDS * retentionDays * (costs.tableBytes + costs.indexBytes)) / 1e12,
      1,
    ),
  ];
}

const costs = await measure();
const measured = { columns: ['for one scan', '', 'counted by'], rows: costRows(costs) };
const planned = {
  columns: ['scans a second', ...RATES.map((rate) => rate.toLocaleString('en'))],
  rows: scaleRows(costs),
};
const command = 'npm run bench:scale -- --figures';
for (const table of [measured, planned]) {
  process.stdout.write(`${tableOf({ command, date: 'now', machine: 'this machine', ...table })}\n\n`);
}
if (figures) {
  writeFigures('cost', { command, ...measured });
  writeFigures('scale', { command, ...planned });
}
