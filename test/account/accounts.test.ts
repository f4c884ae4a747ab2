// Users, keys and the first account, on both stores.
import { createKey, endKey } from '../../src/account/keys.js';
import { bootstrap, createUser, verifyPassword } from '../../src/account/users.js';
import { createAccess } from '../../src/admission/access.js';
import { createKeyLoader } from '../../src/admission/key-owners.js';
import { plansOf } from '../../src/config/plans.js';
import { hashOfKey } from '../../src/store/keys.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { createTestAdmissions } from '../fixtures/accounts.js';
import { newUser } from '../fixtures/new-user.js';
import { makeTransactionsRepeatable, onEachStore, open, type Tap } from '../fixtures/stores.js';

const plans = plansOf(
  new Map([
    ['FREE', 50],
    ['BUSINESS', 10_000],
  ]),
  null,
);
const nothing = { email: null, password: null, apiKey: null, plan: 'BUSINESS' };
const everything = {
  email: 'First@Example.com',
  password: 'correct horse battery',
  apiKey: '0123456789abcdef0123456789abcdef',
  plan: 'FREE',
};

function accessTo(t: Tap, sql: Sql) {
  const store = createTestAdmissions({ load: createKeyLoader(sql, plans), clock: Date.now });
  t.teardown(() => store.stop());
  return createAccess(store, plans);
}

onEachStore(async (t, store) => {
  t.test('an e-mail address has one account, whatever its case', async (t) => {
    const { sql } = await open(t, await store.target(t));
    await newUser(sql, 'Ada@Example.com');
    const again = { email: 'ada@example.COM', name: '', passwordHash: null, plan: 'FREE' };
    t.same(await createUser(sql, again), { outcome: 'emailTaken' });
  });

  t.test('a key is stored as its hash alone, found by it, and ends for good', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql, 'ada@example.com');
    const load = createKeyLoader(sql, plans);
    const find = async (keyHash: string) =>
      (await load([keyHash, keyHash, hashOfKey('0'.repeat(32))])).get(keyHash) ?? null;
    const key = await createKey(sql, { userId, name: 'one' });
    t.match(key.value, /^[0-9a-f]{32}$/);
    t.equal(key.masked, `${key.value.slice(0, 4)}${'*'.repeat(24)}${key.value.slice(-4)}`);
    const hash = hashOfKey(key.value);
    t.same(await find(hash), { userId, keyId: key.keyId, hourlyLimit: 50 });
    t.equal(await find(hashOfKey('f'.repeat(32))), null);
    const [row] = await sql`SELECT k::text AS whole, creation_date FROM api_keys k`;
    t.notMatch(String(row?.['whole']), key.value);
    t.match(row?.['creation_date'], Date);

    const told: string[] = [];
    const admission = { revoke: async ({ keyHash }: { keyHash: string }) => void told.push(keyHash) };
    const stranger = await newUser(sql, 'eve@example.com');
    t.equal(await endKey(sql, admission, stranger, key.keyId), null, 'not by somebody else');
    t.match(await endKey(sql, admission, userId, key.keyId), { keyId: key.keyId, name: 'one' });
    t.equal(await endKey(sql, admission, userId, key.keyId), null);
    t.same(told, [hash]);
    t.equal(await find(hash), null);
    await t.rejects(createKey(sql, { userId, name: 'again', value: key.value }), { code: '23505' });
  });

  t.test('a plan that the configuration no longer has counts as the smallest one', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const { value } = await createKey(sql, {
      userId: await newUser(sql, 'ada@example.com', { plan: 'GONE' }),
      name: 'one',
    });
    const found = await createKeyLoader(sql, plans)([hashOfKey(value)]);
    t.match(found.get(hashOfKey(value)), { hourlyLimit: 50 });
  });

  t.test('the first account has what the operator set, and is made once', async (t) => {
    const { sql } = await open(t, await store.target(t));
    t.same(await bootstrap(sql, everything, store), {
      email: everything.email,
      password: null,
      apiKey: everything.apiKey,
      apiKeyIsRandom: false,
      plan: 'FREE',
    });
    const [user] = await sql<{ password_hash: string }[]>`SELECT password_hash FROM users`;
    t.match(user?.password_hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    t.ok(await verifyPassword(everything.password, String(user?.password_hash)));
    t.notOk(await verifyPassword(`${everything.password}!`, String(user?.password_hash)));
    t.equal(await bootstrap(sql, { ...everything, email: 'second@example.com' }, store), null);

    const access = accessTo(t, sql);
    t.match(await access.withApiKey(everything.apiKey), { outcome: 'admitted', quota: { limit: 50, remaining: 49 } });
  });

  t.test('without settings only the embedded store gets an account, with random values', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const account = await bootstrap(sql, nothing, store);
    if (!store.isEmbedded) {
      t.equal(account, null);
      t.match(await bootstrap(sql, { ...nothing, email: 'ada@example.com' }, store), { apiKeyIsRandom: true });
      return;
    }
    t.match(account, { email: /@/, password: /^[\w-]{24}$/, apiKey: /^[0-9a-f]{32}$/, apiKeyIsRandom: true });
    t.match(account, { plan: 'BUSINESS' });
  });

  t.test('two processes that start at once make one account', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const [one, other] = await Promise.all([open(t, target), open(t, target)]);
    const made = await Promise.all([one, other].map(({ sql }) => bootstrap(sql, everything, store)));
    t.equal(made.filter((account) => account !== null).length, 1);
    t.same([...(await one.sql`SELECT count(*)::int AS keys FROM api_keys`)], [{ keys: 1 }]);
  });

  t.test('when Postgres has gone a key that is not in memory gets a 503', async (t) => {
    const { sql, close } = await openPostgres(await store.target(t));
    const access = accessTo(t, sql);
    await close();
    await t.rejects(async () => access.withApiKey(everything.apiKey), { code: 'unavailable', retryAfterSeconds: 2 });
  });
});
