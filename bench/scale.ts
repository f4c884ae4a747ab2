// `npm run bench:scale`: what one scan of 1 KB costs each part of a service with Postgres and Redis, by counters of the kernel and of the stores, not by time that has gone by, and what
// that makes of 1,000,000 scans a second. With `--figures` the first table is kept for docs/scale.md, which has the second one from it (scale-plan.ts).
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
import { COST_COLUMNS, type Costs, costRows, plannedFor } from './scale-plan.js';

const { figures, seconds: SECONDS } = new Command('npm run bench:scale --')
  .description('What a scan costs each part, counted here, and what many of them would cost: docs/scale.md.')
  .option('--figures', 'keep what a scan costs under docs/figures/, for the documents', false)
  .option('--seconds <count>', 'of a measurement', positive, 20)
  .parse()
  .opts<{ figures: boolean; seconds: number }>();
const WARM_UP_SECONDS = 3;
const CONNECTIONS = 32;
/** Rows are in the database by then. */
const SETTLE_MS = 3_000;

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

const command = 'npm run bench:scale -- --figures';
const measured = { columns: [...COST_COLUMNS], rows: costRows(await measure()) };
const cost = { command, date: 'now', machine: 'this machine', ...measured };
process.stdout.write(`${tableOf(cost)}\n\n${tableOf(plannedFor(cost, readFigures('held-out')))}\n`);
if (figures) writeFigures('cost', { command, ...measured });
