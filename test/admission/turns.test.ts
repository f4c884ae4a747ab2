// Whether Redis or Postgres counts, of processes that stand still, were idle, have just begun or lose one of the two, and after a clock that was set back.
import t, { type Test } from 'tap';
import { createKey } from '../../src/account/keys.js';
import type { KeyRecord, Ledger, LedgerAnswer } from '../../src/admission/admission.js';
import { createAdmissions } from '../../src/admission/admissions.js';
import { createLookups } from '../../src/admission/key-owners.js';
import { createQuotaHours, type DirectCount, type QuotaHours } from '../../src/admission/quota-hours.js';
import { createQuotaMirror } from '../../src/admission/quota-mirror.js';
import { createTurns, type TurnParts } from '../../src/admission/turns.js';
import { createUnits } from '../../src/admission/units.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { STORE_ANSWER_MS, StoreAway } from '../../src/store/store-error.js';
import { later, within } from '../../src/waiting/within.js';
import { createHours, createTestAdmissions, createTestLedger, loaderOf } from '../fixtures/accounts.js';
import { newUser } from '../fixtures/new-user.js';
import { startPostgres } from '../fixtures/postgres.js';
import { until } from '../fixtures/until.js';

const server = await startPostgres({ t });

const taken: LedgerAnswer = {
  kind: 'taken',
  limit: 10,
  counted: 1,
  returned: 0,
  direct: 0,
  windowStartSeconds: 0,
  nowSeconds: 0,
};

async function database(t: Test) {
  const store = await openPostgres({ kind: 'url', url: await server.database() });
  t.teardown(() => store.close());
  return store;
}

/** A process over a ledger that takes a unit whenever it is asked, or as `take` says. */
function processOf(t: Test, sql: Sql, { take = async () => taken, ...parts }: Partial<TurnParts & Ledger> = {}) {
  const problems: string[] = [];
  let reconciliations = 0;
  const ledger: Ledger = { ...createTestLedger(Date.now), take, look: async () => null };
  const turns = createTurns({
    sql,
    ledger,
    problem: () => null,
    flush: async () => undefined,
    onProblem: (problem) => problems.push(problem),
    ...parts,
    async reconcile() {
      reconciliations += 1;
      await parts.reconcile?.();
    },
  });
  t.teardown(() => turns.stop());
  return { turns, ledger: turns.ledger, problems, reconciliations: () => reconciliations };
}

/** As another process does that leaves Redis for a while. */
async function leftAndGivenBack(sql: Sql): Promise<void> {
  await sql`UPDATE ledger_away SET generation = generation + 1`;
}

async function postgresCounts(sql: Sql): Promise<void> {
  await sql`UPDATE ledger_away SET generation = generation + 1, since = now() - interval '1.5 seconds', until = now() + interval '1.9 seconds'`;
}

t.test('an answer of Redis is not believed when Postgres has counted since the question', async (t) => {
  const { sql } = await database(t);
  const question = later<LedgerAnswer>();
  const { ledger, reconciliations } = processOf(t, sql, { take: () => question.promise });
  await ledger.look('user');
  const answer = ledger.take('user', null);
  await leftAndGivenBack(sql);
  await until(() => reconciliations() === 2);
  await ledger.look('user');
  question.resolve(taken);
  await t.rejects(async () => answer, StoreAway);
});

t.test('an answer of Redis is not believed when Redis was lost since the question', async (t) => {
  const { sql } = await database(t);
  const question = later<LedgerAnswer>();
  const { turns, ledger, reconciliations } = processOf(t, sql, { take: () => question.promise });
  await ledger.look('user');
  const answer = ledger.take('user', null);
  await turns.returning();
  await until(() => reconciliations() === 2);
  await ledger.look('user');
  question.resolve(taken);
  await t.rejects(async () => answer, StoreAway);
});

t.test('a process that has never heard from Postgres does not use Redis', async (t) => {
  const { sql, close } = await database(t);
  await close();
  const { ledger, problems } = processOf(t, sql);
  await t.rejects(async () => ledger.take('user', null), StoreAway);
  t.same(problems, []);
});

t.test(
  'a process without requests hears that Redis was left, and goes on with Redis when Postgres is away',
  async (t) => {
    const { sql, close } = await database(t);
    const { ledger, reconciliations } = processOf(t, sql);
    await until(() => reconciliations() === 1);
    await leftAndGivenBack(sql);
    await until(() => reconciliations() === 2);
    await ledger.look('user');
    await close();
    t.match(await ledger.take('user', null), taken);
  },
);

t.test('a Redis that is lost again while it gets what Postgres counted gets it once more', async (t) => {
  const { sql } = await database(t);
  const first = later<void>();
  let isFirst = true;
  const { turns, ledger, reconciliations } = processOf(t, sql, {
    reconcile: () => {
      if (!isFirst) return Promise.resolve();
      isFirst = false;
      return first.promise;
    },
  });
  await until(() => reconciliations() === 1);
  const returning = turns.returning();
  first.resolve();
  await returning;
  await until(async () => {
    try {
      return await ledger.take('user', null);
    } catch {
      return null;
    }
  });
  t.equal(reconciliations(), 2);
});

t.test('nobody waits for all that Redis gets', async (t) => {
  const { sql } = await database(t);
  const { ledger } = processOf(t, sql, { reconcile: () => new Promise(() => undefined) });
  await t.rejects(async () => ledger.take('user', null), StoreAway);
});

t.test('a clock of Postgres that was set back while Postgres counted: both can count again', async (t) => {
  const { sql } = await database(t);
  const ahead = sql`now() + interval '1 hour'`;
  await sql`UPDATE ledger_away SET generation = 1, since = ${ahead}, until = ${ahead}`;
  t.match(await sql`SELECT postgres_counts() AS counts`, [{ counts: false }]);
  t.match(await processOf(t, sql).ledger.take('user', null), taken, 'Redis');
  await sql`UPDATE ledger_away SET generation = 1, since = ${ahead}, until = ${ahead}`;
  const { turns } = processOf(t, sql, { problem: () => 'Redis is away' });
  const isCounting = async () => {
    t.equal(await turns.isPostgres(), true);
    return (await sql`SELECT FROM ledger_away WHERE postgres_counts()`).length > 0;
  };
  await until(isCounting);
  // By a little.
  await sql`UPDATE ledger_away SET since = ${ahead}`;
  await until(isCounting);
});

t.test('what is no outage of Postgres is a problem for the operator, told once, and Redis is not used', async (t) => {
  const { sql } = await database(t);
  const { ledger, problems } = processOf(t, sql);
  await ledger.look('user');
  await sql`DROP TABLE ledger_away`;
  await until(async () => {
    try {
      await ledger.take('user', null);
      return false;
    } catch (error) {
      return error instanceof StoreAway;
    }
  });
  await t.rejects(async () => ledger.take('user', null), StoreAway);
  t.equal(problems.length, 1, problems.join('\n'));
  t.match(problems, [/ledger_away/]);
});

for (const { name, end } of [
  {
    name: 'Redis counts again',
    end: async (sql: Sql) => {
      await sql`UPDATE ledger_away SET until = NULL`;
      return null;
    },
  },
  { name: 'Postgres fails', end: async () => Object.assign(new Error('away'), { code: 'ECONNRESET' }) },
]) {
  t.test(`a key gets its own unit back when the account's can't be taken: ${name}`, async (t) => {
    const { sql } = await database(t);
    const userId = await newUser(sql);
    const { keyId } = await createKey(sql, { userId, name: 'one' });
    const hours = createQuotaHours(sql, true);
    const switching: QuotaHours = {
      ...hours,
      async take(owner, limit, seen, key) {
        const failure = key === undefined ? await end(sql) : null;
        if (failure !== null) throw failure;
        return await hours.take(owner, limit, seen, key);
      },
    };
    const mirror = createQuotaMirror(hours, {
      onDirect: async () => undefined,
      onFailure: () => undefined,
      usersMax: 10,
    });
    t.teardown(() => mirror.stop());
    const units = createUnits({
      ledger: createTestLedger(Date.now),
      hours: switching,
      mirror,
      onExhausted: () => undefined,
      onProblem: (problem) => t.fail(problem),
    });
    await postgresCounts(sql);
    await t.rejects(units.takeDirectly({ userId, keyId }, 10, 5));
    await until(async () => (await sql`SELECT FROM key_hours WHERE direct = 1 AND direct_returned = 1`).length > 0);
    t.same(await sql`SELECT FROM quota_hours WHERE direct > 0`, []);
  });
}

t.test('a request that waits for too long for somebody to count is a 503, and gets no unit afterwards', async (t) => {
  const hours = createHours(Date.now);
  const late = later<void>();
  const ended = later<DirectCount>();
  const admissionsOf = (isPostgres: () => Promise<boolean>) => {
    const store = createAdmissions({
      ledger: { ...createTestLedger(Date.now), take: () => Promise.reject(new StoreAway('cut')) },
      findKey: createLookups(async () => new Map()),
      limitOf: async () => 10,
      hours: {
        ...hours,
        async take(...unit) {
          await late.promise;
          const count = await hours.take(...unit);
          ended.resolve(count);
          return count;
        },
      },
      isPostgres,
      clock: Date.now,
      ledgerProblem: () => null,
      onProblem: (problem) => t.fail(problem),
    });
    t.teardown(() => store.stop());
    return store.admitUser({ userId: 'user', hourlyLimit: 10 });
  };
  await Promise.all([
    t.rejects(async () => admissionsOf(() => new Promise(() => undefined)), { code: 'unavailable' }, 'nobody counts'),
    t.rejects(async () => admissionsOf(async () => true), { code: 'unavailable' }, 'Postgres counts late'),
    t.rejects(within(new Promise(() => undefined), STORE_ANSWER_MS + 100), 'later than any answer of a store'),
  ]);
  late.resolve();
  t.match(await ended.promise, { direct: 1 });
  await until(() => [...hours.rows.values()].some(({ directReturned }) => directReturned === 1));
});

t.test('what Redis has counted is copied before Postgres is asked which limit holds', async (t) => {
  const [userId, keyHash] = ['user', 'a'.repeat(64)];
  const record: KeyRecord = { userId, keyId: 'key', hourlyLimit: 10 };
  let reading: Promise<KeyRecord | null> = Promise.resolve(record);
  const ledger = createTestLedger(Date.now);
  const hours = createHours(Date.now);
  const store = createTestAdmissions({ load: loaderOf(() => reading), clock: Date.now, ledger, hours });
  t.teardown(() => store.stop());
  t.match(await store.admit(keyHash), { outcome: 'admitted' });
  await ledger.setLimit(userId, 20);
  const postgres = later<KeyRecord | null>();
  reading = postgres.promise;
  let isAnswered = false;
  const admission = Promise.resolve(store.admit(keyHash)).finally(() => {
    isAnswered = true;
  });
  await until(() => [...hours.rows.values()].some(({ mirrored }) => mirrored === 2));
  t.notOk(isAnswered, 'Postgres has not said it yet');
  postgres.resolve({ ...record, hourlyLimit: 20 });
  t.match(await admission, { outcome: 'admitted', quota: { remaining: 18 } });
});
