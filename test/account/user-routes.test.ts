// The routes of one's own account over the wire, on both stores: what they show, what a change needs, and whom it signs out.
import { startSession } from '../../src/account/sessions.js';
import { passwordHashOf, verifyPassword } from '../../src/account/users.js';
import type { Sql } from '../../src/store/postgres.js';
import { startDashboard, type TestDashboard } from '../fixtures/dashboard.js';
import { newUser } from '../fixtures/new-user.js';
import { type Answer, ask } from '../fixtures/sign-in.js';
import { makeTransactionsRepeatable, onEachStore, open } from '../fixtures/stores.js';

const PASSWORD = 'correct horse battery';
const OTHER = 'another horse entirely';
const wrong = { status: 400, body: { error: 'Bad request', message: 'currentPassword: is wrong' } };

function change(dashboard: TestDashboard, who: string, body: unknown): Promise<Answer> {
  return dashboard.ask(who, 'PUT', '/web/users/me', body);
}

async function session(sql: Sql, userId: string): Promise<string> {
  const passwordHash = (await passwordHashOf(sql, userId)) ?? '';
  const client = { userAgent: 'test', ipAddress: '127.0.0.1' };
  const started = await startSession(sql, { userId, passwordHash }, client, Date.now());
  if (started === null) throw new Error('The password is the one');
  return started.sessionId;
}

async function sessionsOf(sql: Sql, userId: string): Promise<string[]> {
  return (await sql<{ id: string }[]>`SELECT id FROM sessions WHERE user_id = ${userId}`).map(({ id }) => id);
}

onEachStore(async (t, store) => {
  t.test('what is shown, and a name that is changed without a password', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com', { password: PASSWORD });
    const dashboard = await startDashboard(t, { sql });
    const before = await dashboard.ask(ada, 'GET', '/web/users/me');
    const creationDate = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/;
    const shown = { id: ada, email: 'ada@example.com', name: 'Somebody', plan: 'FREE', hourlyLimit: 50 };
    t.match(before, { status: 200, body: { ...shown, creationDate } });
    const keys = ['id', 'email', 'name', 'plan', 'hourlyLimit', 'role', 'creationDate', 'twoFactor'];
    t.same(Object.keys(Object(before.body)), keys);
    const after = await change(dashboard, ada, { name: '  Ada \u{1F511}  ' });
    t.match(after, { status: 200, body: { ...shown, name: 'Ada \u{1F511}' } });
    t.same((await dashboard.ask(ada, 'GET', '/web/users/me')).body, after.body);
  });

  t.test('what a change refuses, field by field, and then changes nothing', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com', { password: PASSWORD });
    const passwordless = await newUser(sql, 'sso@example.com');
    const dashboard = await startDashboard(t, { sql });
    const before = [...(await sql`SELECT * FROM users ORDER BY id`)];
    const email = 'new@example.com';
    const refused: [unknown, RegExp][] = [
      [{}, /^Send at least one of name, email and newPassword$/],
      [{ currentPassword: PASSWORD }, /^Send at least one of/],
      [{ name: '' }, /^name: must not be empty$/],
      [{ name: 'x'.repeat(101) }, /^name: must have at most 100 characters$/],
      [{ name: 'a\u0007' }, /^name: must not have control characters$/],
      [{ name: 1 }, /^name: /],
      [{ email }, /^currentPassword: email and newPassword need it$/],
      [{ newPassword: OTHER }, /^currentPassword: email and newPassword need it$/],
      [{ email, currentPassword: 'x' }, /^currentPassword: is wrong$/],
      [{ email, currentPassword: `${PASSWORD} ` }, /^currentPassword: is wrong$/],
      [{ name: 'Ada', email, currentPassword: OTHER }, /^currentPassword: is wrong$/],
      [{ email: 'nobody', currentPassword: PASSWORD }, /^email: must be an e-mail address$/],
      [{ email: `${'x'.repeat(243)}@example.com`, currentPassword: PASSWORD }, /^email: must have at most 254/],
      [{ newPassword: 'short', currentPassword: PASSWORD }, /^newPassword: must have 12 to 128 characters$/],
      [{ newPassword: 'x'.repeat(129), currentPassword: PASSWORD }, /^newPassword: must have 12 to 128 characters$/],
      [{ name: 'Ada', plan: 'PRO' }, /unknown: plan$/],
      [{ name: 'Ada', id: ada }, /unknown: id$/],
      [{ name: 'Ada', password_hash: 'x' }, /unknown: password_hash$/],
      ['{"name":"Ada","__proto__":{"plan":"PRO"}}', /unknown: __proto__$/],
      ['null', /./],
      ['[]', /./],
    ];
    for (const [body, message] of refused) {
      const answer = await change(dashboard, ada, body);
      t.match(answer, { status: 400, body: { error: 'Bad request', message } }, JSON.stringify(body).slice(0, 60));
    }
    const none = { status: 400, body: { message: 'currentPassword: this account has no password' } };
    t.match(await change(dashboard, passwordless, { newPassword: OTHER, currentPassword: OTHER }), none);
    t.same([...(await sql`SELECT * FROM users ORDER BY id`)], before);
    t.match(await ask(`http://127.0.0.1:${dashboard.port}/web/users/me`, { method: 'PUT', body: '{}' }), {
      status: 401,
    });
  });

  t.test('an e-mail address is unique whatever its case, also when two take it at once', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const { sql } = await open(t, target);
    const ada = await newUser(sql, 'ada@example.com', { password: PASSWORD });
    const eve = await newUser(sql, 'eve@example.com', { password: PASSWORD });
    const dashboard = await startDashboard(t, { sql });
    const taken = { status: 409, body: { error: 'Conflict', message: 'email: this address has an account' } };
    const toHers = { email: ' ADA@Example.COM ', currentPassword: PASSWORD, name: 'Ada' };
    t.match(await change(dashboard, eve, toHers), taken);
    t.match(await dashboard.ask(eve, 'GET', '/web/users/me'), { body: { name: 'Somebody' } }, 'all of it or nothing');
    t.match(await change(dashboard, ada, toHers), { status: 200, body: { email: 'ada@example.com', name: 'Ada' } });
    const answers = await Promise.all(
      [ada, eve].map((who) => change(dashboard, who, { email: 'Both@example.com', currentPassword: PASSWORD })),
    );
    t.same(answers.map(({ status }) => status).sort(), [200, 409]);
    t.match(answers.find(({ status }) => status === 200)?.body, { email: 'both@example.com' });
  });

  t.test('a new password ends the other sessions of that user, and the old one is good for nothing', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com', { password: PASSWORD });
    const eve = await newUser(sql, 'eve@example.com', { password: PASSWORD });
    const dashboard = await startDashboard(t, { sql });
    const mine = await session(sql, ada);
    for (let other = 0; other < 3; other += 1) await session(sql, ada);
    const hers = await session(sql, eve);
    await change(dashboard, `${ada}/${mine}`, { name: 'Ada', email: 'a@example.com', currentPassword: PASSWORD });
    t.equal((await sessionsOf(sql, ada)).length, 4, 'nothing else ends them');
    const [row] = await sql`SELECT email_vouched FROM users WHERE id = ${ada}`;
    t.same(row, { email_vouched: false }, 'nobody but its owner says that the new address is hers');
    const body = { newPassword: OTHER, currentPassword: PASSWORD };
    t.equal((await change(dashboard, `${ada}/${mine}`, body)).status, 200);
    t.same(await sessionsOf(sql, ada), [mine]);
    t.same(await sessionsOf(sql, eve), [hers]);
    t.ok(await verifyPassword(OTHER, (await passwordHashOf(sql, ada)) ?? ''));
    t.match(await change(dashboard, `${ada}/${mine}`, body), wrong);
  });

  t.test('of changes at once with one current password one is made', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const { sql } = await open(t, target);
    const ada = await newUser(sql, 'ada@example.com', { password: PASSWORD });
    const dashboard = await startDashboard(t, { sql });
    const sessions = [await session(sql, ada), await session(sql, ada), await session(sql, ada)];
    const answers = await Promise.all(
      sessions.map((id, index) =>
        change(dashboard, `${ada}/${id}`, { newPassword: `${OTHER} ${index}`, currentPassword: PASSWORD }),
      ),
    );
    t.same(answers.map(({ status }) => status).sort(), [200, 400, 400]);
    const winner = answers.findIndex(({ status }) => status === 200);
    t.same(await sessionsOf(sql, ada), [sessions[winner]]);
    t.ok(await verifyPassword(`${OTHER} ${winner}`, (await passwordHashOf(sql, ada)) ?? ''));
  });

  t.test('guesses of the current password are counted by session, right ones are not', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com', { password: PASSWORD });
    const NOON = Date.UTC(2026, 0, 2, 12);
    let now = NOON;
    const dashboard = await startDashboard(t, { sql, now: () => now });
    const [stolen, own] = [await session(sql, ada), await session(sql, ada)];
    const rightly = { email: 'ada@example.com', currentPassword: PASSWORD };
    for (let right = 0; right < 11; right += 1) {
      t.equal((await change(dashboard, `${ada}/${stolen}`, rightly)).status, 200);
    }
    const guess = { newPassword: OTHER, currentPassword: OTHER };
    for (let guesses = 0; guesses < 10; guesses += 1)
      t.match(await change(dashboard, `${ada}/${stolen}`, guess), wrong);
    for (const body of [guess, rightly]) {
      const answer = await change(dashboard, `${ada}/${stolen}`, body);
      t.match(answer, { status: 429, body: { error: 'Too many attempts', message: 'Try again later' } });
      t.equal(answer.headers.get('retry-after'), '60');
    }
    t.equal(
      (await change(dashboard, `${ada}/${stolen}`, { name: 'Ada' })).status,
      200,
      'what needs none is not counted',
    );
    t.equal((await change(dashboard, `${ada}/${own}`, rightly)).status, 200, 'the owner elsewhere');
    now += 60_000;
    t.equal((await change(dashboard, `${ada}/${stolen}`, rightly)).status, 200);
  });

  t.test('without Postgres both routes are a 503', async (t) => {
    const { sql, requests, close } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com', { password: PASSWORD });
    const dashboard = await startDashboard(t, { sql: requests('test') });
    await close();
    t.equal((await dashboard.ask(ada, 'GET', '/web/users/me')).status, 503);
    t.equal((await change(dashboard, ada, { name: 'Ada' })).status, 503);
    t.equal((await change(dashboard, ada, { newPassword: OTHER, currentPassword: PASSWORD })).status, 503);
  });
});
