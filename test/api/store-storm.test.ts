// The server beside a real Postgres under what used to end it: more keep-alive connections than a pipeline of the driver has room
// for, all on /readyz, with sign-ins and scans beside them; and Postgres that hangs or stops meanwhile.
import { createHash } from 'node:crypto';
import { Agent, get } from 'node:http';
import postgres from 'postgres';
import t, { type Test } from 'tap';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, PASSWORD, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const CONNECTIONS = 120;
const ROUNDS = 40;
/** Fewer than one account may have at once from one address. */
const SIGN_INS = 8;
const SCANS = 20;

const database = await startPostgres({ t });
const url = await database.database();
const server = await startServer({ t, env: { DATABASE_URL: url, BOOTSTRAP_EMAIL: EMAIL } });
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
t.teardown(() => agent.destroy());

function readyz(): Promise<number> {
  return new Promise((resolve, reject) => {
    get(`${server.url}/readyz`, { agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    }).on('error', reject);
  });
}

async function eachRound(work: () => Promise<number>): Promise<number[]> {
  const statuses: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) statuses.push(await work());
  return statuses;
}

function isUp(t: Test): void {
  t.notMatch(server.output(), /"level":60|has ended|restart/, 'no process has ended');
  t.equal([...server.output().matchAll(/"msg":"listening"/g)].length, 1);
}

t.test('no crash, no transaction left open, and what was acknowledged is there', async (t) => {
  const onlooker = postgres(url, { max: 1 });
  t.teardown(() => onlooker.end());
  const pings = Promise.all(Array.from({ length: CONNECTIONS }, () => eachRound(readyz)));
  // On a busy machine their passwords may take longer than they may: what counts is what was acknowledged.
  const signedIn = Promise.allSettled(Array.from({ length: SIGN_INS }, () => signIn(server.url)));
  const scans = Promise.all(Array.from({ length: SCANS }, (_, index) => upload(server.url, `scan ${index}`)));
  t.same([...new Set((await pings).flat())], [200]);
  t.same([...new Set((await scans).map(({ status }) => status))], [200]);
  const acknowledged = (await signedIn).flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const sessions = acknowledged.map(({ sessionId }) => sessionId);
  const ids = (await scans).map(({ headers }) => headers.get('x-scan-id') ?? '');
  isUp(t);
  const rows = await onlooker`SELECT id FROM sessions WHERE id = ANY(${sessions}::uuid[])`;
  t.equal(rows.length, sessions.length, 'each session that was answered');
  const hashes = acknowledged.map(({ refreshToken }) => createHash('sha256').update(refreshToken).digest('hex'));
  const tokens = await onlooker`SELECT hash FROM refresh_tokens WHERE encode(hash, 'hex') = ANY(${hashes}::text[])`;
  t.equal(tokens.length, sessions.length);
  await until(async () => {
    const [row] = await onlooker`SELECT count(*)::int AS rows FROM scans WHERE id = ANY(${ids}::uuid[])`;
    return row?.['rows'] === SCANS;
  });
  const open = await onlooker`
    SELECT pid, query FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND state_change < now() - interval '1 second'`;
  t.same([...open], [], 'no connection stays inside a transaction');
});

async function everybodyWaits(t: Test, token: string): Promise<void> {
  const get = (path: string) => ask(`${server.url}${path}`, { headers: bearer(token) });
  const answers = await Promise.all([
    get('/web/users/me'),
    get('/web/keys/me'),
    get('/web/scans/stats'),
    get('/web/scans/stats/donuts'),
    get('/web/billing/me'),
    post(`${server.url}/web/auth/login`, { email: EMAIL, password: PASSWORD }),
    upload(server.url, 'whose key is this', { key: 'f'.repeat(32) }),
  ]);
  for (const { status, headers, body } of answers) {
    t.equal(status, 503, JSON.stringify(body));
    t.match(headers.get('retry-after'), /^[1-9]\d*$/);
  }
  t.equal((await upload(server.url, 'a known key goes on')).status, 200);
  // It is up to a second old.
  await until(async () => (await readyz()) !== 200);
  t.equal(await readyz(), 503);
}

async function everybodyIsServed(t: Test, token: string): Promise<void> {
  await until(async () => (await readyz()) === 200);
  for (const path of [
    '/web/users/me',
    '/web/keys/me',
    '/web/scans/stats',
    '/web/scans/stats/donuts',
    '/web/billing/me',
  ]) {
    t.equal((await ask(`${server.url}${path}`, { headers: bearer(token) })).status, 200, path);
  }
  await signIn(server.url);
  t.equal((await upload(server.url, 'whose key is this', { key: 'f'.repeat(32) })).status, 401);
  isUp(t);
}

for (const [name, stop, start] of [
  ['hangs', async () => database.pause(), async () => database.resume()],
  ['has crashed', () => database.crash(), () => database.start()],
] as const) {
  t.test(
    `while Postgres ${name} what needs it is a 503 that says when to come back, and then all is as before`,
    async (t) => {
      const { accessToken } = await signIn(server.url);
      await stop();
      await everybodyWaits(t, accessToken);
      await start();
      await everybodyIsServed(t, accessToken);
    },
  );
}
