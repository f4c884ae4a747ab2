// Counts that are handed from one process to the next: no unit is admitted twice, and one that comes back is there again.
import t, { type Test } from 'tap';
import type { KeyRecord } from '../../src/admission/admission.js';
import { createAdmissions } from '../../src/admission/admissions.js';
import { createLookups } from '../../src/admission/key-owners.js';
import { createHandover } from '../../src/admission/turns.js';
import { createHours, createTestLedger, loaderOf } from '../fixtures/accounts.js';

const LIMIT = 10;

/** Two processes over one Postgres, and what that says of the one key. */
function processes(t: Test) {
  let nowMs = 3_600_000 * 1000;
  const postgres: { record: KeyRecord | null } = { record: { userId: 'u', keyId: 'k', hourlyLimit: LIMIT } };
  const clock = (): number => nowMs++;
  const shared = createHours(clock);
  const start = (isAway: boolean) => {
    const handover = createHandover(() => createTestLedger(clock), shared, isAway);
    const { ledger, hours } = handover;
    const findKey = createLookups(loaderOf(async () => postgres.record));
    const common = { ledgerProblem: () => null, onProblem: () => undefined, clock };
    const store = createAdmissions({ ledger, hours, findKey, limitOf: async () => null, ...common });
    t.teardown(() => store.stop());
    const handOver = async (): Promise<void> => {
      handover.leave();
      await new Promise((resolve) => setImmediate(resolve));
      await store.flush();
    };
    return { store, handOver, arrive: handover.arrive };
  };
  return { old: start(false), fresh: start(true), hours: shared, postgres };
}

t.test('both processes together admit the limit, before, during and after the handover', async (t) => {
  const { old, fresh } = processes(t);
  let admitted = 0;
  const ask = async (store: typeof old.store): Promise<void> => {
    if ((await store.admit('hash')).outcome === 'admitted') admitted += 1;
  };
  for (let time = 0; time < 3; time += 1) await ask(old.store);
  const handing = old.handOver();
  // One that is still there asks while the counts are on their way.
  await Promise.all([ask(old.store), handing]);
  for (let time = 0; time < 2; time += 1) await Promise.all([ask(old.store), ask(fresh.store)]);
  t.equal(admitted, 8);
  fresh.arrive();
  for (let time = 0; time < 5; time += 1) await ask(fresh.store);
  t.equal(admitted, LIMIT);
});

t.test('a unit that the old process gives back after the handover is there for the new one', async (t) => {
  const { old, fresh } = processes(t);
  const taken = [];
  for (let unit = 0; unit < LIMIT; unit += 1) taken.push(await old.store.admit('hash'));
  await old.handOver();
  t.equal((await fresh.store.admit('hash')).outcome, 'exhausted');
  const [first] = taken;
  if (first?.outcome === 'admitted') await first.refund();
  t.equal((await fresh.store.admit('hash')).outcome, 'admitted');
  t.equal((await fresh.store.admit('hash')).outcome, 'exhausted');
  fresh.arrive();
  t.equal((await fresh.store.admit('hash')).outcome, 'exhausted');
});

t.test('a unit taken from Postgres during the handover comes back into Postgres', async (t) => {
  const { fresh, hours } = processes(t);
  const admission = await fresh.store.admit('hash');
  t.match([...hours.rows.values()], [{ direct: 1 }]);
  fresh.arrive();
  if (admission.outcome === 'admitted') await admission.refund();
  t.match([...hours.rows.values()], [{ direct: 1, directReturned: 1 }]);
});

t.test('a limit that changes while Postgres counts for both is no error, and holds then and afterwards', async (t) => {
  const { old, fresh, postgres } = processes(t);
  t.match(await old.store.admit('hash'), { outcome: 'admitted', quota: { limit: LIMIT } });
  await old.handOver();
  t.match(await fresh.store.admit('hash'), { outcome: 'admitted', quota: { limit: LIMIT, remaining: LIMIT - 2 } });
  postgres.record = { userId: 'u', keyId: 'k', hourlyLimit: 4 };
  for (const { store } of [old, fresh]) await store.setLimit('u', 4);
  for (const { store } of [old, fresh])
    t.match(await store.admit('hash'), { outcome: 'admitted', quota: { limit: 4 } });
  t.match(await old.store.admit('hash'), { outcome: 'exhausted', quota: { limit: 4, remaining: 0 } });
  fresh.arrive();
  t.match(await fresh.store.admit('hash'), { outcome: 'exhausted', quota: { limit: 4, remaining: 0 } });
});

t.test('a key that ends while Postgres counts for both is no error, and refused from then on', async (t) => {
  const { old, fresh, postgres } = processes(t);
  t.match(await old.store.admit('hash'), { outcome: 'admitted' });
  await old.handOver();
  t.match(await fresh.store.admit('hash'), { outcome: 'admitted' });
  postgres.record = null;
  for (const { store } of [old, fresh]) await store.revoke({ userId: 'u', keyHash: 'hash' });
  for (const { store } of [old, fresh]) t.match(await store.admit('hash'), { outcome: 'keyInvalid' });
  fresh.arrive();
  t.match(await fresh.store.admit('hash'), { outcome: 'keyInvalid' });
  // The successor has failed: the old process counts again, with nothing that it knew before.
  old.arrive();
  t.match(await old.store.admit('hash'), { outcome: 'keyInvalid' });
});

t.test('a process that counts again, for its successor has failed, begins with what Postgres counted', async (t) => {
  const { old, fresh } = processes(t);
  for (let unit = 0; unit < 3; unit += 1) await old.store.admit('hash');
  await old.handOver();
  for (let unit = 3; unit < LIMIT; unit += 1) t.match(await fresh.store.admit('hash'), { outcome: 'admitted' });
  old.arrive();
  t.match(await old.store.admit('hash'), { outcome: 'exhausted', quota: { limit: LIMIT, remaining: 0 } });
});
