// What an operator does to an account from the command line, as clients of running nodes see it on their next request, and what the audit log keeps of it.
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { z } from 'zod';
import { mainPath } from '../../src/paths.js';
import { openPostgres } from '../../src/store/postgres.js';
import { start } from '../fixtures/command.js';
import { startCommands } from '../fixtures/commands.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, mySessions, post, refresh, signIn } from '../fixtures/sign-in.js';
import { formOf } from '../fixtures/upload.js';

const commands = startCommands();
t.teardown(() => commands.stop());
const sluice = commands.run;

const form = () => formOf(['file', new Blob(['hello']), 'hello.txt']);
const ADA = 'ada@example.com';
const PASSWORD = 'a sentence that ada knows';
const SUSPENDED = { status: 403, body: { error: 'Forbidden', message: 'The account is suspended' } };

t.test('on two nodes with Redis', async (t) => {
  const [postgres, redis] = await Promise.all([startPostgres({ t }), startRedis({ t })]);
  const url = await postgres.database();
  const env = { DATABASE_URL: url, REDIS_URL: redis.url };
  const first = await startServer({ t, env });
  const second = await startServer({ t, env });
  const nodes = [first, second];
  const store = await openPostgres({ kind: 'url', url });
  t.teardown(() => store.close());
  const add = ['user', 'add', ADA, '--password-stdin'];
  t.match(await start(t, mainPath, add, { env, cwd: tmpdir(), input: PASSWORD }).ended, { code: 0 });
  const made = await sluice(env, ['key', 'create', ADA, '--name', 'one', '--json']);
  const { value } = z.object({ value: z.string() }).parse(JSON.parse(made.stdout));
  const scan = (node: string, path = '/api/v1/scans') =>
    ask(`${node}${path}`, { method: 'POST', headers: { 'X-API-KEY': value }, body: form() });

  t.test('the first account of the service is its operator, and others are not', async (t) => {
    const { stdout } = await sluice(env, ['user', 'list', '--json']);
    t.match(JSON.parse(stdout), [
      { email: ADA, role: 'user', suspended: false, ownLimit: null },
      { email: EMAIL, role: 'operator' },
    ]);
    const { accessToken } = await signIn(first.url, ADA, PASSWORD);
    t.match(await ask(`${first.url}/web/users/me`, { headers: bearer(accessToken) }), { body: { role: 'user' } });
  });

  t.test('a limit of its own counts on the next request of every node, for keys and in the client', async (t) => {
    const browser = await signIn(second.url, ADA, PASSWORD);
    for (const { url } of nodes) t.equal((await scan(url)).headers.get('x-ratelimit-limit'), '50');
    const set = await sluice(env, ['user', 'set-limit', ADA, '7']);
    t.match(set, { code: 0, stderr: '', stdout: `${ADA} has 7 scans an hour, of its own.\n` });
    for (const { url } of nodes) {
      t.equal((await scan(url)).headers.get('x-ratelimit-limit'), '7');
      const asked = { headers: bearer(browser.accessToken) };
      t.match(await ask(`${url}/web/quota`, asked), { body: { limit: 7 } });
      t.match(await ask(`${url}/web/users/me`, asked), { body: { hourlyLimit: 7, plan: 'FREE' } });
      t.match(await ask(`${url}/web/billing/me`, asked), { body: { hourlyLimit: 7, plan: 'FREE' } });
      const own = await ask(`${url}/web/scans`, { method: 'POST', ...asked, body: form() });
      t.equal(own.headers.get('x-ratelimit-limit'), '7');
    }
    t.match(await sluice(env, ['user', 'set-plan', ADA, 'PRO']), { stdout: 'is on the plan PRO: 7 scans an hour.' });
    t.match(await sluice(env, ['user', 'set-limit', ADA, 'plan']), {
      stdout: 'has 1000 scans an hour, as its plan has',
    });
    for (const { url } of nodes) t.equal((await scan(url)).headers.get('x-ratelimit-limit'), '1000');
    for (const limit of ['0', '-1', '1.5', '1e3', '', 'none', '99999999999', 'NaN']) {
      const refused = await sluice(env, ['user', 'set-limit', '--', ADA, limit]);
      t.match(refused, { code: 2, stdout: '', stderr: 'The limit must be a whole number from 1 to 1000000000' }, limit);
    }
  });

  t.test(
    'a suspended account is refused on the next request of every node, and has it all again when it is restored',
    async (t) => {
      const browser = await signIn(first.url, ADA, PASSWORD);
      for (const { url } of nodes) t.equal((await scan(url)).status, 200);
      t.match(await sluice(env, ['user', 'suspend', ADA]), { code: 0, stderr: '', stdout: `${ADA} is suspended` });
      for (const { url } of nodes) {
        t.match(await scan(url), SUSPENDED);
        t.match(await scan(url, '/api/v1/nothing'), SUSPENDED, 'what costs nothing, too');
        t.equal((await mySessions(url, bearer(browser.accessToken))).status, 401);
        t.equal((await refresh(url, browser.refreshToken)).status, 401);
        t.match(await post(`${url}/web/auth/login`, { email: ADA, password: PASSWORD }), SUSPENDED);
        const stranger = await post(`${url}/web/auth/login`, { email: ADA, password: 'another sentence' });
        t.match(
          stranger,
          { status: 401, body: { message: 'E-mail or password wrong' } },
          'a stranger learns nothing of it',
        );
      }
      t.match(await sluice(env, ['user', 'suspend', ADA]), { code: 0 }, 'again');
      t.match(await sluice(env, ['user', 'restore', ADA]), { code: 0, stdout: `${ADA} may sign in and scan again.\n` });
      for (const { url } of nodes) {
        const again = await scan(url);
        t.match([again.status, again.headers.get('x-ratelimit-limit')], [200, '1000']);
      }
      t.ok(await signIn(first.url, ADA, PASSWORD));
      t.equal((await mySessions(first.url, bearer(browser.accessToken))).status, 401, 'ended sessions stay ended');
    },
  );

  t.test('without Redis a suspended account is refused all the same', async (t) => {
    await sluice(env, ['user', 'suspend', ADA]);
    await redis.kill();
    for (const { url } of nodes) t.match(await scan(url), SUSPENDED);
    const untold = await sluice(env, ['user', 'suspend', ADA]);
    t.match(untold, {
      code: 2,
      stdout: '',
      stderr: 'Not every server refuses its keys yet: run the same command again',
    });
    await redis.start();
    for (const { url } of nodes) t.match(await scan(url), SUSPENDED);
    t.match(await sluice(env, ['user', 'restore', ADA]), { code: 0 });
    for (const { url } of nodes) t.equal((await scan(url)).status, 200);
  });

  t.test('a role is of the next request', async (t) => {
    const { accessToken } = await signIn(first.url, ADA, PASSWORD);
    const role = async () => (await ask(`${second.url}/web/users/me`, { headers: bearer(accessToken) })).body;
    t.match(await sluice(env, ['user', 'set-role', ADA, 'operator']), { code: 0, stdout: `${ADA} is an operator.\n` });
    t.match(await role(), { role: 'operator' });
    t.match(await sluice(env, ['user', 'set-role', ADA, 'user']), { code: 0, stdout: `${ADA} is no operator.\n` });
    t.match(await role(), { role: 'user' });
    t.match(await sluice(env, ['user', 'set-role', ADA, 'root']), {
      code: 2,
      stderr: 'The role must be one of user, operator',
    });
  });

  t.test('an account is deleted with its keys, sessions and scans; not while Stripe charges it', async (t) => {
    const browser = await signIn(first.url, ADA, PASSWORD);
    const count = async () =>
      (await store.sql`SELECT count(*)::int AS n FROM scans WHERE user_id = ${browser.userId}`)[0]?.['n'];
    t.match(await sluice(env, ['user', 'delete', ADA]), { code: 2, stderr: 'for good: say --yes' });
    await store.sql`
      INSERT INTO billing_customers (user_id, livemode, subscription_id, status)
      VALUES (${browser.userId}, true, 'sub_1', 'active')`;
    t.match(await sluice(env, ['user', 'delete', ADA, '--yes']), { code: 2, stderr: 'cancel it at Stripe first' });
    t.equal((await scan(first.url)).status, 200, 'and nothing has changed');
    while ((await count()) === 0) await delay(20);
    await store.sql`UPDATE billing_customers SET status = 'canceled' WHERE user_id = ${browser.userId}`;
    await store.sql`
      INSERT INTO billing_checkouts (id, user_id, livemode, customer_id, plan, price_id, return_base, expires_at, session_id)
      VALUES (gen_random_uuid(), ${browser.userId}, true, 'cus_1', 'PRO', 'price_1', 'x', now() + interval '1 hour', 'cs_1')`;
    t.match(await sluice(env, ['user', 'delete', ADA, '--yes']), { code: 2, stderr: 'can still be paid' });
    await store.sql`UPDATE billing_checkouts SET closed_at = now()`;
    const deleted = await sluice(env, ['user', 'delete', ADA, '--yes', '--json']);
    t.strictSame(JSON.parse(deleted.stdout), { email: ADA, id: browser.userId });
    // One that was on its way into the database is removed by the servers' upkeep.
    while ((await count()) !== 0) await delay(200);
    for (const { url } of nodes) {
      t.match(await scan(url), { status: 401, body: { error: 'X-API-KEY INVALID' } });
      t.equal((await mySessions(url, bearer(browser.accessToken))).status, 401);
    }
    t.match(await sluice(env, ['user', 'delete', ADA, '--yes']), { code: 2, stderr: 'No account has the address' });
  });

  t.test('the log has it all, and nothing of it can be changed or removed before a year is over', async (t) => {
    const { sql } = store;
    const rows = await sql<{ action: string; target: string; detail: unknown; actor: string }[]>`
      SELECT action, target, detail, actor FROM audit_log ORDER BY id`;
    t.same(
      rows.map(({ action }) => action),
      [
        ...['account.add', 'key.create', 'account.limit', 'account.plan', 'account.limit'],
        ...['account.suspend', 'account.restore', 'account.suspend', 'account.restore'],
        ...['account.role', 'account.role', 'account.delete'],
      ],
    );
    t.ok(rows.every(({ target, actor }) => target === ADA && /^command line \(\S+\)$/.test(actor)));
    const shown = await sluice(env, ['audit', '--rows', '2']);
    t.match(shown, { code: 0, stderr: '' });
    t.match(
      shown.stdout,
      /^AT \(UTC\) [^\n]*\n[^\n]*command line[^\n]*account\.delete +ada@example\.com\n[^\n]*account\.role/,
    );
    t.equal(
      z.array(z.object({ action: z.string() })).parse(JSON.parse((await sluice(env, ['audit', '--json'])).stdout))
        .length,
      rows.length,
    );
    t.match(
      (await sluice(env, ['audit', '--email', ADA.toUpperCase(), '--rows', '1'])).stdout,
      /account\.delete +ada@/,
    );
    t.match(await sluice(env, ['audit', '--email', 'no@example.com']), {
      code: 2,
      stderr: 'No account has the address',
    });
    t.match(await sluice(env, ['audit', '--rows', '0']), { code: 2, stderr: '--rows must be a whole number from 1' });
    t.same(rows[3]?.detail, { from: 'FREE', to: 'PRO' });
    t.notOk(JSON.stringify(rows).includes(value), 'and no key');
    for (const attempt of [
      async () => await sql`UPDATE audit_log SET actor = 'nobody'`,
      async () => await sql`DELETE FROM audit_log`,
      async () => await sql`TRUNCATE audit_log`,
    ]) {
      await t.rejects(attempt(), { message: 'the audit log is only added to' });
    }
    await sql`INSERT INTO audit_log (at, actor, action) VALUES (now() - interval '366 days', 'x', 'y')`;
    await sql`DELETE FROM audit_log WHERE at < now() - interval '1 year'`;
    t.equal((await sql`SELECT FROM audit_log`).count, rows.length);
  });

  t.test('what Redis could not be told of is in the log once, and done when Redis is back', async (t) => {
    const eve = 'eve@example.com';
    const { password } = z
      .object({ password: z.string() })
      .parse(JSON.parse((await sluice(env, ['user', 'add', eve, '--json'])).stdout));
    const key = JSON.parse((await sluice(env, ['key', 'create', eve, '--name', 'one', '--json'])).stdout);
    const { accessToken } = await signIn(first.url, eve, password);
    const lines = async (action: string) =>
      (await store.sql`SELECT FROM audit_log WHERE action = ${action} AND target = ${eve}`).count;
    await redis.kill();
    t.match(await sluice(env, ['key', 'revoke', key.uuid]), { code: 2, stderr: 'run the same command again' });
    t.equal(await lines('key.revoke'), 1);
    const deletion = await post(
      `${first.url}/web/users/me/deletion`,
      { currentPassword: password },
      bearer(accessToken),
    );
    t.equal(deletion.status, 503);
    await redis.start();
    while ((await store.sql`SELECT FROM users WHERE email = ${eve}`).count > 0) await delay(200);
    t.strictSame([await lines('key.revoke'), await lines('account.delete')], [1, 1]);
  });
});
