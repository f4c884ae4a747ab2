// Postgres that has stopped, and Postgres that hangs: each room answers with the same 503 in time, and works again by itself.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { listKeys } from '../../src/account/keys.js';
import { findSession, refreshSession, startSession } from '../../src/account/sessions.js';
import { createKeyLoader, createLookups } from '../../src/admission/key-owners.js';
import { createQuotaHours } from '../../src/admission/quota-hours.js';
import { createBilling } from '../../src/billing/billing.js';
import { findUser } from '../../src/billing/records.js';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { openPostgres } from '../../src/store/postgres.js';
import { guarded } from '../../src/store/store-error.js';
import { ALICE, rowAt, serveHistory } from '../fixtures/history.js';
import { planOf } from '../fixtures/plans.js';
import { startPostgres } from '../fixtures/postgres.js';
import { until } from '../fixtures/until.js';

const server = await startPostgres({ t });
const store = await openPostgres({ kind: 'url', url: await server.database() });
t.teardown(() => store.close());
await createRowStore(store.sql)([rowAt(Date.now())]);

const { admission, pages } = store;
const requests = store.requests('test');
const session = { userId: ALICE, sessionId: ALICE };
const away = 'https://127.0.0.1:1';
const settings = {
  secretKey: 'sk_test_1',
  webhookSecret: 'whsec_1',
  apiBase: away,
  returnBase: away,
};
const plans = [planOf('FREE', 50), planOf('PRO', 1_000, ['price_1'])];
const parts = { plans, planChanged: null, log: pino({ level: 'silent' }), now: Date.now };
const billing = createBilling({ ...parts, sqlOf: store.requests, settings });
const findKey = createLookups(createKeyLoader(admission, plans));
const hours = createQuotaHours(admission);
const history = await serveHistory(t, pages('test'));

/** One question of each room at least, as a transaction where the room has one. */
const questions: Record<string, () => Promise<unknown>> = {
  'account: a session': () => findSession(requests, session, Date.now()),
  'account: its keys': async () => await listKeys(requests, ALICE),
  'account: a sign-in': () =>
    startSession(requests, { userId: ALICE, passwordHash: '' }, { userAgent: '', ipAddress: '::1' }, Date.now()),
  'account: a refresh': () =>
    refreshSession(requests, 'x'.repeat(43), { nowMs: Date.now(), arrivedAt: performance.now(), key: null }),
  'billing: the plan': () => billing.me(ALICE),
  'billing: a purchase': () => billing.checkout(ALICE, 'PRO'),
  'billing: a reading': () => billing.sync(ALICE, null),
  'webhook: whose event it is': () => findUser(requests, 'cus_1', false),
  'admission: a key': () => findKey('ab'.repeat(32)),
  'admission: a count': () => guarded(hours.take(ALICE, 50, null)),
};
const historyPages = [
  '',
  '?q=a',
  '?infected=true&sort=filename,asc',
  '?page=9999&size=200&sort=status',
  '/donuts',
  '/monthly',
];

const unavailable = { code: 'unavailable', detail: 'The account store is not reachable', retryAfterSeconds: 2 };
const answer = {
  status: 503,
  retryAfter: '2',
  body: { error: 'Service unavailable', message: 'The account store is not reachable' },
};

async function allRefuse(t: Test): Promise<void> {
  await Promise.all([
    ...Object.entries(questions).map(([name, ask]) => t.rejects(ask(), unavailable, name)),
    ...historyPages.map(async (path) => t.match(await history(path), answer, `history${path}`)),
  ]);
  // An answer that it has is good for a second.
  while (
    await store.ping().then(
      () => true,
      () => false,
    )
  );
}

/** What is no outage is none any more: billing says that there is no such user, and Stripe is still away. */
async function allAnswer(t: Test): Promise<void> {
  for (const [name, ask] of Object.entries(questions)) {
    const outcome = await ask().then(
      () => 'an answer',
      (error: unknown) => error,
    );
    t.notMatch(outcome, unavailable, name);
  }
  for (const path of historyPages) t.match(await history(path), { status: 200 }, `history${path}`);
}

/** Not before a second has gone by is Postgres asked again. */
async function pingAgain(): Promise<void> {
  await until(() =>
    store.ping().then(
      () => true,
      () => false,
    ),
  );
}

t.test('Postgres answers: so does everything', allAnswer);

t.test('Postgres hangs', async (t) => {
  server.pause();
  await allRefuse(t);
  server.resume();
  await pingAgain();
  await allAnswer(t);
});

t.test('Postgres has crashed', async (t) => {
  await server.crash();
  await allRefuse(t);
  // More than once: what could not connect takes no connection away from what comes later.
  for (let round = 0; round < 10; round += 1) await t.rejects(findSession(requests, session, Date.now()), unavailable);
  await server.start();
  await pingAgain();
  await allAnswer(t);
});

t.test('a mistake of ours is none of the store', async (t) => {
  await t.rejects(requests`SELECT no_such_column`.then(), { code: '42703' });
  await t.rejects(requests`SELECT ${JSON.parse('{}').nothing}`.then(), { code: 'UNDEFINED_VALUE' });
  await t.rejects(guarded(Promise.reject(new Error('a bug'))), { name: 'Error', message: 'a bug' });
  await t.rejects(guarded(Promise.reject(new TypeError('a bug'))), { name: 'TypeError' });
});
