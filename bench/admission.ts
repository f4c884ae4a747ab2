// What admission costs and whether it is exact: a million racing admissions over three processes and the end of an hour, and the way over Redis against the one in the process.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { createKey } from '../src/account/keys.js';
import { ownSignaturesDirectory } from '../src/paths.js';
import { hashOfKey } from '../src/store/keys.js';
import { openPostgres } from '../src/store/postgres.js';
import { admissionNodePath } from '../test/fixtures/admission-node-path.js';
import { newUser } from '../test/fixtures/new-user.js';
import { startPostgres } from '../test/fixtures/postgres.js';
import { startRedis, startRedisCluster } from '../test/fixtures/redis.js';
import { API_KEY, startServer } from '../test/fixtures/server.js';
import { compile, loadProgram } from './compile.js';
import { askForFiles, askForRun } from './contestants/contestant.js';
import { tableOf, writeFigures } from './figures.js';
import { makeFileSet } from './files.js';
import { startLineProcess } from './line-process.js';
import { median } from './median.js';

const PROCESSES = 3;
/** At least so many; the race goes on until both hours are used up. */
const ADMISSIONS = 1_000_000;
/** What a process is asked for at a time. */
const PORTION = 10_000;
const RACE_SECONDS_MAX = 60;
const LIMIT = 250_000;
const ROUNDS = 9;
const ROUND_SECONDS = 3;

const { figures } = new Command('npm run bench:admission --')
  .description('What admission over Redis adds to a scan, and whether racing processes give exactly the limit.')
  .option('--figures', 'keep the table under docs/figures/, for the documents', false)
  .parse()
  .opts<{ figures: boolean }>();
const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** Three processes take units of one user as fast as they can; the hour ends in the middle. Whether each hour gave exactly its limit. */
async function race(redisUrl: string, databaseUrl: string, name: string): Promise<boolean> {
  const postgres = await openPostgres({ kind: 'url', url: databaseUrl });
  const userId = await newUser(postgres.sql, `${name}@bench.example`);
  const { value } = await createKey(postgres.sql, { userId, name });
  await postgres.close();
  // The processes' hour ends some seconds from now, whatever the clock says.
  const untilHour = 3600 - (Math.floor(Date.now() / 1000) % 3600);
  const offset = untilHour - 8;
  const settings = [redisUrl, databaseUrl, hashOfKey(value), String(LIMIT), String(offset)];
  const nodes = Array.from({ length: PROCESSES }, () =>
    startLineProcess(process.execPath, { args: [admissionNodePath, ...settings] }),
  );
  try {
    for (const node of nodes) await node.next();
    const startedAt = performance.now();
    const secondsNow = (): number => (performance.now() - startedAt) / 1000;
    const total = new Map<string, number>();
    const isUsedUp = (): boolean => [...total.keys()].filter((what) => what.startsWith('exhausted')).length === 2;
    let asked = 0;
    const run = async (node: (typeof nodes)[number]): Promise<void> => {
      while ((asked < ADMISSIONS || !isUsedUp()) && secondsNow() < RACE_SECONDS_MAX) {
        asked += PORTION;
        for (const [what, count] of Object.entries(countsOf(await node.ask(`take ${PORTION}`)))) {
          total.set(what, (total.get(what) ?? 0) + count);
        }
      }
    };
    await Promise.all(nodes.map(run));
    const took = secondsNow().toFixed(1);
    print(`${name}: ${asked} admissions over ${PROCESSES} processes in ${took} s, limit ${LIMIT} an hour`);
    for (const [what, count] of [...total].sort()) print(`  ${what}: ${count}`);
    const given = [...total].filter(([what]) => what.startsWith('admitted')).map(([, count]) => count);
    const isExact = given.length === 2 && given.every((count) => count === LIMIT);
    if (!isUsedUp())
      print(`  nothing is said: not two hours were used up within ${took} s, on a machine with other work`);
    else print(isExact ? '  exact' : `  WRONG: ${2 * LIMIT} were to be admitted, ${LIMIT} in each of two hours`);
    return isExact;
  } finally {
    await Promise.all(nodes.map((node) => node.stop()));
  }
}

function countsOf(line: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [what, count] of Object.entries(Object(JSON.parse(line)))) counts[what] = Number(count);
  return counts;
}

/** One connection, one scan after the other: the median's difference is what the way to Redis adds. */
async function latency(redisUrl: string, databaseUrls: readonly [string, string]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const plans = { PLANS: 'FREE:50,BENCH:999999999', BOOTSTRAP_PLAN: 'BENCH', LOG_LEVEL: 'info' };
  const common = { ...plans, SIGNATURES_DIR: ownSignaturesDirectory, SCAN_THREADS: '1' };
  const entrants = await Promise.all(
    [
      { name: 'in the process', env: { ...common, DATABASE_URL: databaseUrls[0] } },
      { name: 'over Redis', env: { ...common, DATABASE_URL: databaseUrls[1], REDIS_URL: redisUrl } },
    ].map(async ({ name, env }) => {
      const server = await startServer({ isSupervised: true, env });
      const client = startLineProcess(await compile(loadProgram));
      await client.ask(`http ${server.port} ${API_KEY}`);
      return { name, server, client, p50: [] as number[], p99: [] as number[] };
    }),
  );
  try {
    const files = await makeFileSet(
      { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } },
      folder,
      async () => () => true,
    );
    for (const { client } of entrants) {
      await askForFiles(client, files);
      await askForRun(client, 'run 1 1 keep');
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const entrant of round % 2 ? [...entrants].reverse() : entrants) {
        const { p50Us, p99Us, errors, firstError } = await askForRun(entrant.client, `run ${ROUND_SECONDS} 1 keep`);
        if (errors > 0) throw new Error(firstError);
        entrant.p50.push(p50Us ?? Number.NaN);
        entrant.p99.push(p99Us ?? Number.NaN);
      }
    }
    const [own, redis] = entrants.map(({ p50 }) => p50);
    const added = (redis ?? []).map((value, round) => value - (own?.[round] ?? Number.NaN));
    // 1 KB, one connection, medians of rounds in turns; at most 150 are promised.
    const columns = ['admission', 'p50 us', 'p99 us', 'added, us'];
    const rows = entrants.map(({ name, p50, p99 }, at) => {
      return [name, median(p50).toFixed(0), median(p99).toFixed(0), at === 0 ? '-' : median(added).toFixed(0)];
    });
    const command = 'npm run bench:admission -- --figures';
    print(tableOf({ command, date: 'now', machine: 'this machine', columns, rows }));
    if (figures) writeFigures('admission', { command, columns, rows });
  } finally {
    for (const { client, server } of entrants) {
      await client.stop();
      await server.stop();
    }
    await rm(folder, { recursive: true, force: true });
  }
}

const postgres = await startPostgres();
const redis = await startRedis();
const cluster = await startRedisCluster();
try {
  const isExact = [
    await race(redis.url, await postgres.database(), 'redis'),
    await race(cluster.url, await postgres.database(), 'cluster'),
  ];
  if (isExact.includes(false)) process.exitCode = 1;
  await latency(redis.url, [await postgres.database(), await postgres.database()]);
} finally {
  await cluster.stop();
  await redis.stop();
  await postgres.stop();
}
