// A scan is known when it is answered, over the wire and on both stores: by its id, in the list, in the statistics and in the CSV; on other nodes as well.
import t, { type Test } from 'tap';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { eicar } from '../fixtures/samples.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { ask, bearer, signIn } from '../fixtures/sign-in.js';
import { upload } from '../fixtures/upload.js';

const TIMES = 20;

function reader({ url }: TestServer, token: string) {
  return async (path: string): Promise<{ status: number; body: Record<string, unknown> }> => {
    const { status, body } = await ask(`${url}/web/scans/${path}`, { headers: bearer(token) });
    return { status, body: Object(body) };
  };
}

async function known(t: Test, env: Readonly<Record<string, string>>): Promise<void> {
  const server = await startServer({ env });
  t.teardown(() => server.stop('SIGKILL'));
  const { accessToken } = await signIn(server.url);
  const get = reader(server, accessToken);
  const ids: string[] = [];
  for (let time = 1; time <= TIMES; time += 1) {
    const { headers, body } = await upload(server.url, time % 2 === 0 ? `content ${time}` : eicar());
    const id = headers.get('x-scan-id') ?? '';
    const sha256 = headers.get('x-scan-sha256');
    ids.push(id);
    const { infected, virusName, filename } = body;
    t.match(await get(id), { status: 200, body: { id, infected, virusName, filename, sha256, status: '200' } });
  }
  for (let time = 1; time <= TIMES; time += 1) {
    const { headers } = await upload(server.url, `more ${time}`);
    ids.push(headers.get('x-scan-id') ?? '');
    const { body } = await get('stats?size=1');
    t.match(body, { content: [{ id: ids.at(-1) }], totalElements: ids.length });
  }
  await upload(server.url, eicar());
  t.match((await get('stats/donuts')).body, { infected: TIMES / 2 + 1, clean: TIMES / 2 + TIMES });
  await upload(server.url, eicar());
  t.match(Object.values((await get('stats/monthly')).body).at(-1), { infected: TIMES / 2 + 2 });
  const { headers } = await upload(server.url, '');
  const csv = await fetch(`${server.url}/web/scans/stats/export`, { headers: bearer(accessToken) });
  t.match(
    await csv.text(),
    new RegExp(`\\n${headers.get('x-scan-id')},.*,,[0-9a-f-]{36}\\r\\n`),
    'by a key, and no URL',
  );
  t.match(await get(ids[0]?.toUpperCase() ?? ''), { status: 200 });
  t.equal((await get('01a1d7c0-0000-7000-8000-000000000000')).status, 404);
}

t.test('on the embedded store', (t) => known(t, {}));

t.test('on Postgres, with Redis, and asked of another node', async (t) => {
  const [postgres, redis] = [await startPostgres(), await startRedis()];
  t.teardown(() => postgres.stop());
  t.teardown(() => redis.stop());
  await known(t, { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url });

  await redis.client.flushall();
  const env = { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url };
  const [one, other] = [await startServer({ env }), await startServer({ env })];
  for (const node of [one, other]) t.teardown(() => node.stop('SIGKILL'));
  const get = reader(other, (await signIn(other.url)).accessToken);
  for (let time = 1; time <= TIMES; time += 1) {
    const { headers } = await upload(one.url, `content ${time}`);
    t.equal((await get(headers.get('x-scan-id') ?? '')).status, 200, 'the other node waits for it');
  }
});
