// What is taken and what came back stays so, over the wire: through restarts, upgrades and kills, over several nodes, and whatever the clock does.
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { childrenOf } from '../fixtures/processes.js';
import { openRaw } from '../fixtures/raw-http.js';
import { startRedis } from '../fixtures/redis.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { wrongClock } from '../fixtures/wrong-clock-path.js';

const PLAN = { PLANS: 'SMALL:50', BOOTSTRAP_PLAN: 'SMALL' };
const TEST_MS = 120_000;

/** Begins so many uploads, leaves in the middle of each, and waits until all their units are back. */
async function abortUploads(server: TestServer, count: number): Promise<void> {
  const before = await unitsLeft(server.url);
  const connections = [];
  for (let index = 0; index < count; index += 1) {
    const connection = await openRaw(server.port);
    await connection.send(
      `POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: 1000\r\n` +
        'Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n',
    );
    connections.push(connection);
  }
  await until(async () => (await unitsLeft(server.url)) === before - count);
  for (const connection of connections) connection.end();
  await until(async () => (await unitsLeft(server.url)) === before);
}

/** Counts are in Postgres within a second: it is the time itself that is waited for. */
async function copied(): Promise<void> {
  await delay(1_500);
}

/** Each way in which one process goes and another one comes, with the same directory. */
async function through(t: Test, env: Readonly<Record<string, string>>): Promise<void> {
  const directory = temporaryFolder(t);
  const start = (): Promise<TestServer> => startServer({ isSupervised: true, directory, env: { ...PLAN, ...env } });
  let server = await start();
  t.teardown(() => server.stop('SIGKILL'));
  await enoughOfTheHour(TEST_MS);
  t.equal((await upload(server.url, 'one')).status, 200);
  await abortUploads(server, 20);
  t.equal(await unitsLeft(server.url), 49);

  process.kill(server.pid, 'SIGUSR2');
  await server.printed(/"msg":"(replaced)"/);
  t.equal(await unitsLeft(server.url), 49, 'after an upgrade');
  await abortUploads(server, 10);

  await server.stop();
  server = await start();
  t.equal(await unitsLeft(server.url), 49, 'after a restart');
  t.equal((await upload(server.url, 'two')).headers.get('x-ratelimit-remaining'), '48');
  await abortUploads(server, 10);
  await copied();

  const all = [server.pid, ...childrenOf(server.pid)];
  for (const pid of all) process.kill(pid, 'SIGKILL');
  await server.stop('SIGKILL');
  server = await start();
  t.equal(await unitsLeft(server.url), 48, 'after a kill');
  t.equal((await upload(server.url, 'three')).headers.get('x-ratelimit-remaining'), '47');
}

t.test('units that came back stay so through upgrade, restart and kill, embedded', async (t) => {
  await through(t, {});
});

t.test('the same with Postgres and Redis, also after Redis has lost all that it had', async (t) => {
  const postgres = await startPostgres({ t });
  const redis = await startRedis({ t });
  const env = { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url };
  await t.test('one node', (t) => through(t, env));

  await t.test('two nodes', async (t) => {
    await redis.client.flushall();
    const shared = { ...PLAN, ...env, DATABASE_URL: await postgres.database() };
    const [one, other] = [await startServer({ env: shared }), await startServer({ env: shared })];
    for (const node of [one, other]) t.teardown(() => node.stop('SIGKILL'));
    await enoughOfTheHour(TEST_MS);
    t.equal((await upload(one.url, 'one')).status, 200);
    await abortUploads(one, 15);
    await abortUploads(other, 15);
    for (const node of [one, other]) t.equal(await unitsLeft(node.url), 49);
    await copied();
    await redis.client.flushall();
    for (const node of [one, other]) t.equal(await unitsLeft(node.url), 49);
    t.equal((await upload(other.url, 'two')).headers.get('x-ratelimit-remaining'), '48');
    t.equal((await upload(one.url, 'three')).headers.get('x-ratelimit-remaining'), '47');
  });
});

t.test('a clock that jumps hours ahead, and back, gives nobody units', async (t) => {
  const clock = wrongClock(t);
  const server = await startServer({ env: { PLANS: 'SMALL:20', BOOTSTRAP_PLAN: 'SMALL', ...clock.env } });
  t.teardown(() => server.stop('SIGKILL'));
  await enoughOfTheHour(TEST_MS);
  const left = async (): Promise<string | null> =>
    (await upload(server.url, 'content')).headers.get('x-ratelimit-remaining');
  for (const remaining of ['19', '18', '17']) t.equal(await left(), remaining);
  clock.set(3);
  t.equal(await left(), '16', 'the hour that has begun goes on');
  clock.set(0);
  t.equal(await left(), '15');
  clock.set(-30);
  t.equal(await left(), '14');
});
