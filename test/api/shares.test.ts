// What strangers and accounts ask of the store and of the processor, hundreds at a time, beside another account: each of them has its turn.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { type Account, makeAccount } from '../fixtures/another-account.js';
import { type Asked, startFlood } from '../fixtures/flood.js';
import { segmentsOf } from '../fixtures/jwt.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, PASSWORD, post, refresh, signIn } from '../fixtures/sign-in.js';

const env = { REGISTRATION: 'open' };
/** Of one account; so many of one address that ask the store before they are known, too. */
const REQUESTS_PER_SECOND = 400;
const REQUESTS_AT_ONCE = 8;
const server = await startServer({ t, env });
const { port, url } = server;
const innocent = await makeAccount(url, 'innocent@example.com');
const greedy = await makeAccount(url, 'greedy@example.com');

/** As many answers of each status as there were. */
async function statuses(
  times: number,
  one: () => Promise<{ readonly status: number }>,
): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (let n = 0; n < times; n += 1) {
    const { status } = await one();
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

function as({ accessToken }: Pick<Account, 'accessToken'>, path: string): Asked {
  return { method: 'GET', path, headers: bearer(accessToken) };
}

const signInAgain = () => post(`${url}/web/auth/login`, { email: 'innocent@example.com', password: PASSWORD });
const me = () => ask(`${url}/web/users/me`, { headers: bearer(innocent.accessToken) });
const history = () => ask(`${url}/web/scans/stats`, { headers: bearer(innocent.accessToken) });

function madeUp(path: string): Asked {
  return { method: 'POST', path, headers: { Cookie: `sluice_refresh=${randomBytes(32).toString('base64url')}` } };
}

for (const path of ['/web/auth/refresh', '/web/auth/logout']) {
  t.test(`600 connections with made-up cookies for ${path}: sign-ins and refreshes go on`, async (t) => {
    let { refreshToken } = await signIn(url);
    const startedMs = performance.now();
    const flood = startFlood(port, { connections: 600, next: () => madeUp(path) });
    await flood.running(600);
    const most = (REQUESTS_PER_SECOND * (performance.now() - startedMs)) / 1000 + REQUESTS_AT_ONCE;
    t.ok(flood.total() <= most, `${flood.total()} answers`);
    t.same(await statuses(20, signInAgain), { 200: 20 });
    for (let n = 0; n < 3; n += 1) {
      const refreshed = await refresh(url, refreshToken);
      t.equal(refreshed.status, 200, 'from the same address');
      refreshToken = /^sluice_refresh=([^;]*)/m.exec(refreshed.headers.getSetCookie().join('\n'))?.[1] ?? '';
    }
    await flood.stop();
    t.ok(flood.answers.has(path.endsWith('refresh') ? 401 : 204), 'and each of them has its answer in its turn');
  });
}

t.test('1,200 connections of one account that list its keys: another one is answered', async (t) => {
  const startedMs = performance.now();
  const flood = startFlood(port, { connections: 1_200, next: () => as(greedy, '/web/keys/me') });
  await flood.running(1_200);
  t.same(await statuses(40, me), { 200: 40 });
  const most = (REQUESTS_PER_SECOND * (performance.now() - startedMs)) / 1000 + REQUESTS_AT_ONCE;
  t.ok((flood.answers.get(200) ?? 0) <= most, 'and it has so many a second and no more, however fast the machine is');
  await flood.stop();
});

t.test(
  '400 connections of one account that sort its history: another one sees its own, each time as the next but few',
  async (t) => {
    const flood = startFlood(port, { connections: 400, next: () => as(greedy, '/web/scans/stats?sort=filename') });
    await flood.running(400);
    const before = flood.answers.get(200) ?? 0;
    t.same(await statuses(20, history), { 200: 20 });
    // Each of the twenty asks for its session and for its page: the others' 400 aren't all before it.
    t.ok((flood.answers.get(200) ?? 0) - before < 20 * 100, 'the others did not all come first');
    await flood.stop();
  },
);

t.test('checks of the right password are bounded for an account, and another one signs in meanwhile', async (t) => {
  const body = JSON.stringify({ email: 'greedy@example.com', currentPassword: PASSWORD });
  const headers = { ...bearer(greedy.accessToken), 'Content-Type': 'application/json' };
  const next = () => ({ method: 'PUT', path: '/web/users/me', headers, body });
  const flood = startFlood(port, { connections: 80, next });
  await flood.running(500);
  t.same(await statuses(10, signInAgain), { 200: 10 });
  await flood.stop();
  t.ok((flood.answers.get(200) ?? 0) <= 40, `${flood.answers.get(200)} of them checked a password`);
  t.ok((flood.answers.get(429) ?? 0) > 300, `the rest were refused: ${JSON.stringify([...flood.answers])}`);
});

t.test('wrong passwords from the address of an account that is signed in there do not keep it out', async (t) => {
  let n = 0;
  const next = () => {
    n += 1;
    const body = JSON.stringify({ email: `${n}@example.com`, password: 'a wrong password' });
    return { method: 'POST', path: '/web/auth/login', headers: { 'Content-Type': 'application/json' }, body };
  };
  await signInAgain();
  const flood = startFlood(port, { connections: 100, next });
  await flood.running(500);
  t.same(await statuses(10, signInAgain), { 200: 10 });
  await flood.stop();
  t.equal(
    (await post(`${url}/web/auth/login`, { email: EMAIL.replace('admin', 'x'), password: PASSWORD })).status,
    429,
  );
});

t.test('forged tokens under the key id of a real one: others have their turns between them', async (t) => {
  const [header, payload] = segmentsOf(greedy.accessToken);
  const next = () => {
    const token = `${header}.${payload}.${randomBytes(64).toString('base64url')}`;
    return { method: 'GET', path: '/web/users/me', headers: bearer(token) };
  };
  const flood = startFlood(port, { connections: 600, next });
  await flood.running(600);
  t.same(await statuses(20, me), { 200: 20 });
  t.same(await statuses(5, signInAgain), { 200: 5 });
  await flood.stop();
  t.ok(flood.answers.has(401));
});
