// What was just refused is refused again from memory: Postgres hears of it once, and needn't be there.
import { randomBytes } from 'node:crypto';
import postgres from 'postgres';
import t from 'tap';
import { segmentsOf } from '../fixtures/jwt.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, PASSWORD, post, refresh, signIn } from '../fixtures/sign-in.js';

const database = await startPostgres({ t });
const databaseUrl = await database.database();
const server = await startServer({ t, env: { DATABASE_URL: databaseUrl, BOOTSTRAP_EMAIL: EMAIL } });
const { url } = server;
const onlooker = postgres(databaseUrl, { max: 1 });
t.teardown(() => onlooker.end());

/** Of this database, since it was made; sessions tell of theirs when they rest. */
async function transactions(): Promise<number> {
  const [row] = await onlooker<{ count: number }[]>`
    SELECT (xact_commit + xact_rollback)::integer AS count FROM pg_stat_database WHERE datname = current_database()`;
  return row?.count ?? 0;
}

const wrong = () => post(`${url}/web/auth/login`, { email: 'nobody@example.com', password: 'a wrong password' });

t.test('hundreds of sign-ins beyond the limit are no hundreds of transactions', async (t) => {
  for (let status = 401; status === 401; ) ({ status } = await wrong());
  const before = await transactions();
  for (let n = 0; n < 25; n += 1) {
    const answers = await Promise.all(Array.from({ length: 20 }, wrong));
    for (const { status, headers } of answers) {
      if (status !== 429) t.equal(status, 401, 'a minute has gone by');
      else if (!/^[1-9]\d?$/.test(headers.get('retry-after') ?? '')) t.fail('when to come back');
    }
  }
  // Postgres is asked again every five seconds, and upkeep goes on.
  const asked = (await transactions()) - before;
  t.ok(asked < 250, `${asked} transactions for 500 refusals`);
});

t.test('what is known to be refused is refused while Postgres stands still; the rest is a 503', async (t) => {
  const { accessToken, refreshToken } = await signIn(url);
  const madeUp = randomBytes(32).toString('base64url');
  const ended = await signIn(url);
  await ask(`${url}/web/auth/logout`, { method: 'POST', headers: { Cookie: `sluice_refresh=${ended.refreshToken}` } });
  const [header, payload] = segmentsOf(accessToken);
  const forged = `${header}.${payload}.${randomBytes(64).toString('base64url')}`;
  const me = (token: string) => ask(`${url}/web/users/me`, { headers: bearer(token) });
  t.equal((await refresh(url, madeUp)).status, 401);
  t.equal((await me(ended.accessToken)).status, 401);
  database.pause();
  try {
    t.equal((await refresh(url, madeUp)).status, 401, 'a refresh token that nobody has');
    t.equal((await refresh(url, 'of another form')).status, 401);
    t.equal(
      (await ask(`${url}/web/auth/logout`, { method: 'POST', headers: { Cookie: `sluice_refresh=${madeUp}` } })).status,
      204,
    );
    t.equal((await me(ended.accessToken)).status, 401, 'a session that has ended');
    t.equal((await me(forged)).status, 401, 'a forged token');
    t.equal((await refresh(url, refreshToken)).status, 503, 'who may be somebody has to be asked for');
  } finally {
    database.resume();
  }
  t.equal((await me(accessToken)).status, 200);
  t.equal((await post(`${url}/web/auth/login`, { email: EMAIL, password: PASSWORD })).status, 200);
});
