// Two server processes over one Postgres and one Redis Cluster: one quota on both, by key or signed in, with Redis or without.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis, startRedisCluster } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { type UploadAnswer, upload } from '../fixtures/upload.js';
import { uploadSignedIn } from '../fixtures/web-scans.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const postgres = await startPostgres({ t });
const plan = { PLANS: 'SMALL:100', BOOTSTRAP_PLAN: 'SMALL' };

/** Requests: with all thousand at once this process is so late with some that the server has given their connections up. */
const AT_ONCE = 100;

/** A test that reaches over the end of an hour would count two. */
async function awayFromTheHour(): Promise<void> {
  await enoughOfTheHour(40_000);
}

t.test('a thousand requests by two ways to two nodes get exactly the units that there are', async (t) => {
  const cluster = await startRedisCluster({ t });
  const env = { ...plan, DATABASE_URL: await postgres.database(), REDIS_URL: cluster.url };
  const one = await startServer({ t, env });
  const other = await startServer({ t, env });
  await awayFromTheHour();
  const { accessToken: token } = await signIn(other.url);
  const ask = (index: number): Promise<UploadAnswer> => {
    if (index % 4 === 3) return uploadSignedIn(other.url, token, 'content');
    return upload(index % 2 ? one.url : other.url, 'content');
  };
  const answers: UploadAnswer[] = [];
  let asked = 0;
  const client = async (): Promise<void> => {
    while (asked < 1_000) answers.push(await ask(asked++));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  const admitted = answers.filter(({ status }) => status === 200);
  t.equal(admitted.length, 100);
  t.equal(answers.filter(({ status }) => status === 429).length, 900);
  t.strictSame(
    admitted.map(({ headers }) => Number(headers.get('x-ratelimit-remaining'))).sort((a, b) => a - b),
    Array.from({ length: 100 }, (_, index) => index),
    'no two answers have the same number of units left',
  );
  for (const server of [one, other]) t.equal(await server.stop(), 0);
});

t.test('Redis killed and started under load: no request fails, and the limit stays exact', async (t) => {
  const redis = await startRedis({ t });
  const env = { ...plan, DATABASE_URL: await postgres.database(), REDIS_URL: redis.url };
  const servers = [await startServer({ env }), await startServer({ env })];
  t.teardown(() => Promise.all(servers.map((server) => server.stop())));
  await awayFromTheHour();
  const counts = { 200: 0, 429: 0 };
  const ask = async (rounds: number): Promise<void> => {
    for (let round = 0; round < rounds; round += 1) {
      for (const { status, body } of await Promise.all(servers.map(({ url }) => upload(url, 'content')))) {
        if (status === 200 || status === 429) counts[status] += 1;
        else t.fail(`${status} ${JSON.stringify(body)}`);
      }
    }
  };
  const isBack = async (): Promise<void> => {
    for (const { url } of servers) {
      await until(async () => {
        const { admission } = Object(await (await fetch(`${url}/readyz`)).json());
        return admission.status === 'ready';
      });
    }
  };
  await ask(10);
  await redis.kill();
  await ask(10);
  const { status, body } = await fetch(`${servers[0]?.url}/readyz`).then(async (response) => ({
    status: response.status,
    body: Object(await response.json()),
  }));
  t.equal(status, 200, 'scans are served all the same');
  t.match(body.admission, { status: 'degraded', message: /^Redis is away/ });
  await redis.start();
  await isBack();
  await ask(60);
  t.same(counts, { 200: 100, 429: 60 });
});

t.test('a restart goes on with the hour', async (t) => {
  const env = { ...plan, DATABASE_URL: await postgres.database() };
  await awayFromTheHour();
  const before = await startServer({ t, env });
  for (let unit = 0; unit < 3; unit += 1) await upload(before.url, 'content');
  await before.stop();
  const after = await startServer({ t, env });
  t.equal((await upload(after.url, 'content')).headers.get('x-ratelimit-remaining'), '96');
});

t.test('what one node has scanned, another one with the same signatures knows, and none with others', async (t) => {
  const redis = await startRedis({ t });
  const stores = { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url };
  const mark = 'a mark that newer signatures know';
  const old = bodySignature('Test.Old', 'some other mark');
  const folders = [old, old, old + bodySignature('Test.New', mark)].map((text) => databaseFolder(t, { 'a.ndb': text }));
  const servers = await Promise.all(
    folders.map((folder) => startServer({ env: { ...stores, SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '0' } })),
  );
  t.teardown(() => Promise.all(servers.map((server) => server.stop())));
  const large = mark.padEnd(100_000, '.');
  const answers = [];
  for (const { url } of servers) {
    for (const content of [large, mark, large]) {
      const { status, headers, body } = await upload(url, content);
      answers.push([status, body['virusName'], headers.get('x-scan-cache')]);
    }
  }
  const found = 'Test.New.UNOFFICIAL';
  t.strictSame(answers, [
    [200, null, 'MISS'],
    [200, null, 'MISS'],
    [200, null, 'HIT'],
    [200, null, 'HIT'],
    [200, null, 'MISS'],
    [200, null, 'HIT'],
    [200, found, 'MISS'],
    [200, found, 'MISS'],
    [200, found, 'HIT'],
  ]);
  const [first] = folders;
  writeFileSync(join(first ?? '', 'a.ndb'), old + bodySignature('Test.New', mark));
  process.kill(servers[0]?.pid ?? 0, 'SIGHUP');
  await servers[0]?.printed(/"signatureCount":(2),/);
  const { body, headers } = await upload(servers[0]?.url ?? '', large);
  t.strictSame([body['virusName'], headers.get('x-scan-cache')], [found, 'HIT'], 'as the third node has said');
});
