// What one account learns of another's scans from remembered verdicts: nothing that an answer says, on one node and on two.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { makeAccount } from '../fixtures/another-account.js';
import { zip } from '../fixtures/archives.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { ask, bearer } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

/** It takes the engine tens of milliseconds, and nobody has scanned it: 40 MB of zeros, and something of its own. */
function slowContent(): Buffer {
  return zip([
    { name: randomBytes(8).toString('hex'), content: randomBytes(8) },
    { name: 'zeros', content: Buffer.alloc(40 * 1024 * 1024) },
  ]);
}

interface Told {
  readonly status: number;
  readonly cache: string | null;
  readonly durationMs: unknown;
  readonly scanId: string;
}

async function scan({ url }: TestServer, key: string, content: Uint8Array | string): Promise<Told> {
  const { status, headers, body } = await upload(url, content, { key });
  const scanId = headers.get('x-scan-id') ?? '';
  return { status, cache: headers.get('x-scan-cache'), durationMs: body['scanDurationMillis'], scanId };
}

/** Whether the verdict was remembered, as the operator's log has it. */
async function wasRemembered(server: TestServer, { scanId }: Told): Promise<boolean> {
  return (await server.printed(new RegExp(`"scanId":"${scanId}".*"cached":(true|false)`))) === 'true';
}

t.test('another account gets the remembered verdict as if the engine had looked', async (t) => {
  const server = await startServer({ env: { REGISTRATION: 'open' } });
  const other = await makeAccount(server.url, 'other@example.com');
  const content = slowContent();
  const first = await scan(server, API_KEY, content);
  t.match(first, { status: 200, cache: 'MISS' });
  t.ok(Number(first.durationMs) > 0);
  const theirs = await scan(server, other.key, content);
  t.match(theirs, { status: 200, cache: 'MISS', durationMs: first.durationMs });
  t.ok(await wasRemembered(server, theirs));
  for (const key of [API_KEY, other.key]) {
    t.match(await scan(server, key, content), { status: 200, cache: 'HIT', durationMs: 0 });
  }
  const rows = await until(async () => {
    const page = await ask(`${server.url}/web/scans/stats?sort=creationDate,asc`, {
      headers: bearer(other.accessToken),
    });
    const { content } = Object(page.body);
    return content.length >= 2 && content;
  });
  t.match(rows, [{ scanDurationMillis: first.durationMs }, { scanDurationMillis: 0 }], 'the history says the same');
  await server.stop();
});

t.test('with VERDICT_CACHE=account nothing of others is used', async (t) => {
  const server = await startServer({ env: { REGISTRATION: 'open', VERDICT_CACHE: 'account' } });
  const other = await makeAccount(server.url, 'other@example.com');
  t.match(await scan(server, API_KEY, 'content'), { status: 200, cache: 'MISS' });
  const theirs = await scan(server, other.key, 'content');
  t.match(theirs, { status: 200, cache: 'MISS' });
  t.notOk(await wasRemembered(server, theirs), 'the engine has looked again');
  for (const key of [API_KEY, other.key]) {
    t.match(await scan(server, key, 'content'), { status: 200, cache: 'HIT', durationMs: 0 });
  }
  await server.stop();
});

t.test('with VERDICT_CACHE_MB=0 nothing is remembered', async (t) => {
  const server = await startServer({ env: { VERDICT_CACHE_MB: '0' } });
  t.match(await scan(server, API_KEY, 'content'), { status: 200, cache: 'MISS' });
  const again = await scan(server, API_KEY, 'content');
  t.match(again, { status: 200, cache: 'MISS' });
  t.notOk(await wasRemembered(server, again));
  await server.stop();
});

t.test('nodes tell each other verdicts, and who has scanned', async (t) => {
  const postgres = await startPostgres();
  const redis = await startRedis();
  for (const scope of ['shared', 'account']) {
    const env = {
      REGISTRATION: 'open',
      VERDICT_CACHE: scope,
      DATABASE_URL: await postgres.database(),
      REDIS_URL: redis.url,
    };
    const one = await startServer({ env });
    const node = await startServer({ env });
    const other = await makeAccount(one.url, `${scope}@example.com`);
    const content = Buffer.concat([slowContent(), Buffer.alloc(32 * 1024)]);
    const first = await scan(one, API_KEY, content);
    t.match(first, { status: 200, cache: 'MISS' });
    t.match(await scan(node, API_KEY, content), { status: 200, cache: 'HIT', durationMs: 0 }, `${scope}: its own`);
    const theirs = await scan(node, other.key, content);
    t.match(theirs, { status: 200, cache: 'MISS' });
    t.equal(await wasRemembered(node, theirs), scope === 'shared');
    if (scope === 'shared') t.equal(theirs.durationMs, first.durationMs);
    t.match(await scan(one, other.key, content), { status: 200, cache: 'HIT', durationMs: 0 }, `${scope}: and theirs`);
    for (const server of [one, node]) await server.stop();
  }
  await redis.stop();
  await postgres.stop();
});
