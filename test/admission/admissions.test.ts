// Admission, one suite for the ledger in memory, in Redis and in Redis Cluster: exact, by the hour, and up to date with what changes.
import t, { type Test } from 'tap';
import { HOURS_KEPT, type KeyRecord, type Ledger } from '../../src/admission/admission.js';
import { StoreAway } from '../../src/store/store-error.js';
import { createHours, createTestAdmissions, createTestLedger, loaderOf } from '../fixtures/accounts.js';
import { until } from '../fixtures/until.js';
import { keysOf, type LedgerAt, newUserId, nodesAt, onEachLedger, outcomes, SOON_MS } from './harness.js';

const HOUR_MS = 3_600_000;

async function suite(t: Test, ledgerAt: LedgerAt): Promise<void> {
  const node = nodesAt(t, ledgerAt);

  t.test('a thousand at once at a limit of a hundred: exactly a hundred, over all keys of the user', async (t) => {
    const userId = newUserId();
    const [hash, other] = keysOf(userId);
    const { store } = node(async (keyHash) => ({ userId, keyId: keyHash, hourlyLimit: 100 }));
    const asked = Array.from({ length: 1000 }, (_, index) => {
      if (index % 3 === 2) return store.admitUser({ userId, hourlyLimit: 100 });
      return store.admit(index % 3 ? hash : other);
    });
    const admissions = await Promise.all(asked);
    t.same(outcomes(admissions), { admitted: 100, exhausted: 900 });
    const left = admissions.flatMap((one) => (one.outcome === 'admitted' ? [one.quota.remaining] : []));
    t.same(
      left.sort((a, b) => b - a),
      Array.from({ length: 100 }, (_, index) => 99 - index),
      'each remainder once, none below zero',
    );
    for (const one of admissions) {
      if (one.outcome === 'exhausted') t.match(one, { quota: { remaining: 0 }, retryAfterSeconds: Number });
    }
  });

  t.test('the window is the UTC hour, and a refund goes back into its own', async (t) => {
    const userId = newUserId();
    const [hash] = keysOf(userId);
    const { store, clock } = node(async () => ({ userId, keyId: 'key', hourlyLimit: 2 }));
    const reset = (SOON_MS - 5 * 60_000 + HOUR_MS) / 1000;
    const first = await store.admit(hash);
    t.match(first, {
      outcome: 'admitted',
      userId,
      keyId: 'key',
      quota: { limit: 2, remaining: 1, resetEpochSeconds: reset },
    });
    const second = await store.admit(hash);
    const full = await store.admit(hash);
    t.match(full, { outcome: 'exhausted', quota: { limit: 2, remaining: 0, resetEpochSeconds: reset } });
    if (first.outcome !== 'admitted' || second.outcome !== 'admitted' || full.outcome !== 'exhausted')
      throw new Error('One unit was taken');
    t.ok(Math.abs(full.retryAfterSeconds - 55 * 60) < 60);
    clock.nowMs += HOUR_MS;
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { remaining: 1, resetEpochSeconds: reset + 3600 } });
    t.match(await first.refund(), { limit: 2, remaining: 1, resetEpochSeconds: reset });
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { remaining: 0 } }, 'this hour keeps its count');
    clock.nowMs -= HOUR_MS;
    t.match(
      await store.admit(hash),
      { outcome: 'admitted', quota: { remaining: 0 } },
      'a clock set back finds its hour',
    );
    for (let hour = 0; hour < HOURS_KEPT; hour += 1) {
      clock.nowMs += HOUR_MS;
      await store.admit(hash);
    }
    t.match(await second.refund(), { remaining: 1, resetEpochSeconds: reset }, 'Postgres has an hour that is over');
  });

  t.test('a clock that is hours ahead or behind for a while, and is set right, finds its counts', async (t) => {
    const userId = newUserId();
    const [hash] = keysOf(userId);
    const { store, clock } = node(async () => ({ userId, keyId: 'key', hourlyLimit: 20 }));
    for (let unit = 0; unit < 3; unit += 1) await store.admit(hash);
    for (const hours of [3, 30, -30, 600]) {
      clock.nowMs += hours * HOUR_MS;
      t.match(await store.admit(hash), { outcome: 'admitted' });
      clock.nowMs -= hours * HOUR_MS;
    }
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { remaining: 16 } });
  });

  t.test(
    'a unit that came back stays so, for a node that was not there and after the ledger has lost it',
    async (t) => {
      const userId = newUserId();
      const [hash] = keysOf(userId);
      const find = async () => ({ userId, keyId: 'key', hourlyLimit: 10 });
      const { store, hours, clock } = node(find);
      const taken = [];
      for (let unit = 0; unit < 6; unit += 1) taken.push(await store.admit(hash));
      await store.flush();
      for (const one of taken.slice(1)) if (one.outcome === 'admitted') await one.refund();
      await until(async () => (await hours.read(userId)).some(({ returned }) => returned === 5));
      // A process that was killed copies nothing at its end.
      const ledger = createTestLedger(() => clock.nowMs);
      const heir = createTestAdmissions({ load: loaderOf(find), clock: () => clock.nowMs, ledger, hours });
      t.teardown(() => heir.stop());
      t.match(await heir.admit(hash), { outcome: 'admitted', quota: { remaining: 8 } });
      t.match(await store.admitUser({ userId, hourlyLimit: 10 }), { outcome: 'admitted', quota: { remaining: 8 } });
      await store.flush();
      t.match(await hours.read(userId), [{ mirrored: 7, returned: 5 }]);
    },
  );

  t.test('a plan that changes counts at once, up and down', async (t) => {
    const userId = newUserId();
    const [hash] = keysOf(userId);
    let hourlyLimit = 2;
    const { store } = node(async () => ({ userId, keyId: 'key', hourlyLimit }));
    await store.admit(hash);
    await store.admit(hash);
    t.match(await store.admit(hash), { outcome: 'exhausted', quota: { limit: 2 } });
    hourlyLimit = 5;
    await store.setLimit(userId, 5);
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { limit: 5, remaining: 2 } });
    hourlyLimit = 1;
    await store.setLimit(userId, 1);
    t.match(await store.admit(hash), { outcome: 'exhausted', quota: { limit: 1, remaining: 0 } });
  });

  t.test('what another process did to a key or its plan, telling nobody, arrives', async (t) => {
    const userId = newUserId();
    const [hash] = keysOf(userId);
    let found: KeyRecord | null = { userId, keyId: 'key', hourlyLimit: 5 };
    const { store, clock } = node(async () => found);
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { limit: 5 } });
    found = { userId, keyId: 'key', hourlyLimit: 1 };
    clock.nowMs += 15_000;
    t.match(await store.admit(hash), { outcome: 'exhausted', quota: { limit: 1, remaining: 0 } });
    found = null;
    clock.nowMs += 15_000;
    t.match(await store.admit(hash), { outcome: 'keyInvalid' });
  });

  t.test(
    'a limit that the ledger has kept from before gives way to what Postgres says, for keys and who is signed in',
    async (t) => {
      for (const [before, after] of [
        [2, 5],
        [5, 2],
      ] as const) {
        const [byKey, signedIn] = [newUserId(), newUserId()];
        const [hash] = keysOf(byKey);
        const clock = { nowMs: SOON_MS };
        const ledger = ledgerAt(() => clock.nowMs);
        const find = (hourlyLimit: number) => async () => ({ userId: byKey, keyId: 'key', hourlyLimit });
        const old = node(find(before), clock, ledger).store;
        await old.admit(hash);
        await old.admitUser({ userId: signedIn, hourlyLimit: before });
        // Another process, started with other PLANS.
        const { store } = node(find(after), clock, ledger);
        t.match(await store.admit(hash), { outcome: 'admitted', quota: { limit: after } });
        t.match(await store.admitUser({ userId: signedIn, hourlyLimit: after }), { quota: { limit: after } });
        for (let unit = 2; unit < after; unit += 1) {
          t.match(await store.admit(hash), {
            outcome: 'admitted',
            quota: { limit: after, remaining: after - unit - 1 },
          });
        }
        t.match(await store.admit(hash), { outcome: 'exhausted', quota: { limit: after } });
      }
    },
  );

  t.test('a limit that has come down below what is used admits nobody, by a key and who is signed in', async (t) => {
    const [byKey, signedIn] = [newUserId(), newUserId()];
    const [hash] = keysOf(byKey);
    const clock = { nowMs: SOON_MS };
    const ledger = ledgerAt(() => clock.nowMs);
    const find = (hourlyLimit: number) => async () => ({ userId: byKey, keyId: 'key', hourlyLimit });
    const old = node(find(5), clock, ledger).store;
    for (let unit = 0; unit < 2; unit += 1) {
      await old.admit(hash);
      await old.admitUser({ userId: signedIn, hourlyLimit: 5 });
    }
    const { store } = node(find(2), clock, ledger);
    const full = { outcome: 'exhausted', quota: { limit: 2, remaining: 0 } };
    t.match(await store.admit(hash), full);
    t.match(await store.admitUser({ userId: signedIn, hourlyLimit: 2 }), full);
    t.match(await store.quotaOf({ userId: signedIn, hourlyLimit: 3 }), { remaining: 1 }, 'and takes no unit');
  });

  t.test('what a caller said of the limit before it changed is not filled in after it', async (t) => {
    const userId = newUserId();
    const clock = { nowMs: SOON_MS };
    const now = () => clock.nowMs;
    const ledger = ledgerAt(now);
    const limitOf = async () => 1_000;
    const store = createTestAdmissions({ load: loaderOf(async () => null), clock: now, ledger, limitOf });
    t.teardown(() => store.stop());
    t.match(await store.admitUser({ userId, hourlyLimit: 50 }), { outcome: 'admitted', quota: { limit: 1_000 } });
    t.match(await store.admitUser({ userId, hourlyLimit: 1_000 }), { quota: { limit: 1_000, remaining: 998 } });
  });

  t.test('a key that was refused works the moment it is there', async (t) => {
    const userId = newUserId();
    const [hash] = keysOf(userId);
    let found: KeyRecord | null = null;
    const { store } = node(async () => found);
    t.match(await store.admit(hash), { outcome: 'keyInvalid' });
    found = { userId, keyId: 'key', hourlyLimit: 1 };
    t.match(await store.admit(hash), { outcome: 'admitted' });
  });

  t.test('without Postgres known keys go on, and others get a 503', async (t) => {
    const userId = newUserId();
    const [hash, other] = keysOf(userId);
    let isAway = false;
    const { store, clock } = node(async (keyHash) => {
      if (isAway) throw Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' });
      return { userId, keyId: keyHash, hourlyLimit: 5 };
    });
    await store.admit(hash);
    isAway = true;
    clock.nowMs += 60_000;
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { remaining: 3 } });
    await t.rejects(async () => store.admit(other), {
      code: 'unavailable',
      detail: 'The account store is not reachable',
      retryAfterSeconds: 2,
    });
  });

  t.test('a count goes on from the one in Postgres when the ledger has lost its own', async (t) => {
    const userId = newUserId();
    const [hash] = keysOf(userId);
    const { store, hours, clock } = node(async () => ({ userId, keyId: 'key', hourlyLimit: 10 }));
    for (let unit = 0; unit < 4; unit += 1) await store.admit(hash);
    await store.stop();
    const [row] = await hours.read(userId);
    t.match(row, { mirrored: 4, direct: 0 });
    const heir = createTestAdmissions({
      load: loaderOf(async () => ({ userId, keyId: 'key', hourlyLimit: 10 })),
      clock: () => clock.nowMs,
      ledger: createTestLedger(() => clock.nowMs),
      hours,
    });
    t.teardown(() => heir.stop());
    t.match(await heir.admit(hash), { outcome: 'admitted', quota: { remaining: 5 } });
  });
}

t.test(
  'the ledger hears whose key it is at first sight and in every hour of use, and nobody waits for that',
  async (t) => {
    const clock = { nowMs: SOON_MS };
    const told: string[] = [];
    const ledger: Ledger = {
      ...createTestLedger(() => clock.nowMs),
      rememberOwner(keyHash) {
        told.push(keyHash);
        return told.length === 1 ? Promise.reject(new StoreAway('down')) : new Promise(() => undefined);
      },
    };
    const find = async (keyId: string) => ({ userId: 'u', keyId, hourlyLimit: 1_000 });
    // Another node's user, whose record is filled: then a fill isn't what tells it.
    await ledger.fill('u', await ledger.begin('u'), { key: { hash: 'a', keyId: 'a' }, hourlyLimit: 1_000, hours: [] });
    const store = createTestAdmissions({ load: loaderOf(find), clock: () => clock.nowMs, ledger });
    t.teardown(() => store.stop());
    for (let minute = 0; minute <= 120; minute += 1) {
      t.match(await store.admit('a'), { outcome: 'admitted' });
      clock.nowMs += 60_000;
    }
    t.same(told, ['a', 'a', 'a']);
  },
);

onEachLedger(suite);

t.test('where few units are left Postgres knows at once, otherwise within a second', async (t) => {
  const clock = (): number => SOON_MS;
  const hours = createHours(clock);
  const load = loaderOf(async (keyHash) => ({
    userId: keyHash,
    keyId: 'key',
    hourlyLimit: keyHash === 'few' ? 50 : 5_000,
  }));
  // The copy of each second is the first one's first.
  const [first, second] = [createTestAdmissions({ load, clock, hours }), createTestAdmissions({ load, clock, hours })];
  t.teardown(() => [first, second].map((store) => store.stop()));
  await Promise.all([first.admit('many'), second.admit('few')]);
  await until(() => hours.rows.size === 2);
  t.strictSame(
    [...hours.rows.values()].map(({ userId }) => userId),
    ['few', 'many'],
  );
});
