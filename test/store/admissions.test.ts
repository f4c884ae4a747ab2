// Admission, one suite for the ledger in memory, in Redis and in Redis Cluster: exact, by the hour, and deaf to no revocation in any order.
import t from 'tap';
import type { Admission, KeyRecord } from '../../src/store/admission.js';
import { type Ledger, LedgerAway, RECORD_KEYS_MAX } from '../../src/store/ledger.js';
import { createMemoryLedger } from '../../src/store/memory-ledger.js';
import { openRedis } from '../../src/store/redis.js';
import { createRedisLedger } from '../../src/store/redis-ledger.js';
import { createHours, createTestAdmissions, loaderOf } from '../fixtures/accounts.js';
import { everyOrder, type Gate } from '../fixtures/orders.js';
import { patient, startRedis, startRedisCluster } from '../fixtures/redis.js';

type Subtest = Parameters<Parameters<typeof t.test>[0]>[0];
/** The clock is that of the ledger too. */
type LedgerAt = (clock: () => number) => Ledger;

const HOUR_MS = 3_600_000;
/** Some minutes into an hour: a test doesn't last to its end. */
const SOON_MS = Date.UTC(2026, 10, 21, 12, 5);
let users = 0;

/** Every test has a user of its own: Redis is one for all of them. */
function newUser(): string {
  users += 1;
  return `00000000-0000-7000-8000-${String(users).padStart(12, '0')}`;
}

/** Two keys of nobody else's. */
function keysOf(userId: string): [string, string] {
  const digits = userId.replaceAll('-', '');
  return [digits.padEnd(64, 'a'), digits.padEnd(64, 'b')];
}

function outcomes(admissions: readonly Admission[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of admissions) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

async function suite(t: Subtest, ledgerAt: LedgerAt): Promise<void> {
  function node(find: (keyHash: string) => Promise<KeyRecord | null>, clock = { nowMs: SOON_MS }, ledger?: Ledger) {
    const now = () => clock.nowMs;
    const hours = createHours(now);
    const store = createTestAdmissions({ load: loaderOf(find), clock: now, ledger: ledger ?? ledgerAt(now), hours });
    t.teardown(() => store.stop());
    return { store, hours, clock };
  }

  t.test('a thousand at once at a limit of a hundred: exactly a hundred, over all keys of the user', async (t) => {
    const userId = newUser();
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
    const userId = newUser();
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
    await store.admit(hash);
    const full = await store.admit(hash);
    t.match(full, { outcome: 'exhausted', quota: { limit: 2, remaining: 0, resetEpochSeconds: reset } });
    if (first.outcome !== 'admitted' || full.outcome !== 'exhausted') throw new Error('One unit was taken');
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
    clock.nowMs += 4 * HOUR_MS;
    t.match(await store.admit(hash), { outcome: 'admitted' });
    t.equal(await first.refund(), null, 'an hour that is over and forgotten');
  });

  t.test('a plan that changes counts at once, up and down', async (t) => {
    const userId = newUser();
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
    const userId = newUser();
    const [hash] = keysOf(userId);
    let found: KeyRecord | null = { userId, keyId: 'key', hourlyLimit: 5 };
    const { store, clock } = node(async () => found);
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { limit: 5 } });
    found = { userId, keyId: 'key', hourlyLimit: 1 };
    clock.nowMs += 15_000;
    t.match(await store.admit(hash), { outcome: 'exhausted', quota: { limit: 1, remaining: 0 } });
    found = null;
    clock.nowMs += 15_000;
    t.match(await store.admit(hash), { outcome: 'unknownKey' });
  });

  t.test(
    'a limit that the ledger has kept from before gives way to what Postgres says, for keys and who is signed in',
    async (t) => {
      for (const [before, after] of [
        [2, 5],
        [5, 2],
      ] as const) {
        const [byKey, signedIn] = [newUser(), newUser()];
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

  t.test('what a caller said of the limit before it changed is not filled in after it', async (t) => {
    const userId = newUser();
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
    const userId = newUser();
    const [hash] = keysOf(userId);
    let found: KeyRecord | null = null;
    const { store } = node(async () => found);
    t.match(await store.admit(hash), { outcome: 'unknownKey' });
    found = { userId, keyId: 'key', hourlyLimit: 1 };
    t.match(await store.admit(hash), { outcome: 'admitted' });
  });

  t.test('without Postgres known keys go on, and others are told to come back', async (t) => {
    const userId = newUser();
    const [hash, other] = keysOf(userId);
    let isAway = false;
    const { store, clock } = node(async (keyHash) => {
      if (isAway) throw new Error('connection refused');
      return { userId, keyId: keyHash, hourlyLimit: 5 };
    });
    await store.admit(hash);
    isAway = true;
    clock.nowMs += 60_000;
    t.match(await store.admit(hash), { outcome: 'admitted', quota: { remaining: 3 } });
    await t.rejects(store.admit(other), {
      code: 'unavailable',
      detail: 'The account store is not reachable',
      retryAfterSeconds: 2,
    });
  });

  t.test('a count goes on from what Postgres was told when the ledger has lost its own', async (t) => {
    const userId = newUser();
    const [hash] = keysOf(userId);
    const { store, hours, clock } = node(async () => ({ userId, keyId: 'key', hourlyLimit: 10 }));
    for (let unit = 0; unit < 4; unit += 1) await store.admit(hash);
    await store.stop();
    const [row] = await hours.read(userId);
    t.match(row, { mirrored: 4, direct: 0 });
    const heir = createTestAdmissions({
      load: loaderOf(async () => ({ userId, keyId: 'key', hourlyLimit: 10 })),
      clock: () => clock.nowMs,
      ledger: createMemoryLedger(() => clock.nowMs),
      hours,
    });
    t.teardown(() => heir.stop());
    t.match(await heir.admit(hash), { outcome: 'admitted', quota: { remaining: 5 } });
  });

  /**
   * A new user and a node: its ledger with a gate before each step, and what it asks Postgres with one before and one behind, for it
   * may be old on arrival.
   */
  function gatedNode(gate: Gate, hourlyLimit: number) {
    const userId = newUser();
    const [keyHash, otherHash] = keysOf(userId);
    const clock = { nowMs: SOON_MS };
    const postgres: { record: KeyRecord | null } = { record: { userId, keyId: 'key', hourlyLimit } };
    const real = ledgerAt(() => clock.nowMs);
    const ledger: Ledger = {
      ...real,
      take: async (...all) => gate('a').then(() => real.take(...all)),
      giveBack: async (...all) => gate('a').then(() => real.giveBack(...all)),
      begin: async (...all) => gate('a').then(() => real.begin(...all)),
      fill: async (...all) => gate('a').then(() => real.fill(...all)),
      revoke: async (...all) => gate('b').then(() => real.revoke(...all)),
      setLimit: async (...all) => gate('b').then(() => real.setLimit(...all)),
    };
    const find = async (): Promise<KeyRecord | null> => {
      await gate('a');
      const { record } = postgres;
      await gate('a');
      return record;
    };
    const { store } = node(find, clock, ledger);
    /** Another node at that ledger, which hears this of the key. */
    const elsewhere = (other: (keyHash: string) => KeyRecord | null) =>
      node(async (hash) => other(hash), clock, real).store;
    return { userId, keyHash, otherHash, postgres, real, store, elsewhere };
  }

  t.test('a key is refused after its revocation, in every order of the steps', async (t) => {
    for (const start of ['cold', 'warm'] as const) {
      const orders = await everyOrder(async (gate) => {
        const { userId, keyHash, postgres, store, elsewhere } = gatedNode(gate, 100);
        const { record } = postgres;
        if (start === 'warm') await store.admit(keyHash);
        return {
          a: () => store.admit(keyHash),
          async b() {
            await gate('b');
            postgres.record = null;
            await store.revoke({ userId, keyHash });
          },
          async check(order) {
            t.match(await store.admit(keyHash), { outcome: 'unknownKey' }, order);
            t.match(await elsewhere(() => null).admit(keyHash), { outcome: 'unknownKey' }, order);
            const late = await elsewhere(() => record).admit(keyHash);
            t.match(late, { outcome: 'unknownKey' }, `${order}, a node with an old read`);
          },
        };
      });
      t.ok(orders > (start === 'cold' ? 20 : 2), `${orders} orders from a ${start} start`);
    }
  });

  t.test('a limit that was set holds from then on, in every order of the steps, and no unit is lost', async (t) => {
    for (const [start, before, after] of [
      ['cold', 5, 2],
      ['cold', 2, 5],
      ['warm', 5, 2],
      ['warm', 2, 5],
    ] as const) {
      const orders = await everyOrder(async (gate) => {
        const { userId, keyHash, postgres, store, elsewhere } = gatedNode(gate, before);
        const first = start === 'warm' ? [await store.admit(keyHash)] : [];
        return {
          async a() {
            first.push(await store.admit(keyHash));
          },
          async b() {
            await gate('b');
            postgres.record = { userId, keyId: 'key', hourlyLimit: after };
            await store.setLimit(userId, after);
          },
          async check(order) {
            t.same(outcomes(first), { admitted: first.length }, order);
            const other = elsewhere(() => postgres.record);
            for (let unit = first.length; unit < after; unit += 1) {
              const place = unit % 2 ? store : other;
              const quota = { limit: after, remaining: after - unit - 1 };
              t.match(await place.admit(keyHash), { outcome: 'admitted', quota }, order);
            }
            for (const place of [store, other]) {
              const quota = { limit: after, remaining: 0 };
              t.match(await place.admit(keyHash), { outcome: 'exhausted', quota }, order);
            }
          },
        };
      });
      t.ok(orders > (start === 'cold' ? 20 : 2), `${orders} orders from a ${start} start, ${before} to ${after}`);
    }
  });

  t.test('a key that ends while its limit is agreed on costs no unit, in every order of the steps', async (t) => {
    const seen = new Set<string>();
    const orders = await everyOrder(async (gate) => {
      const { userId, keyHash, otherHash, postgres, real, store, elsewhere } = gatedNode(gate, 5);
      t.match(await store.admit(keyHash), { outcome: 'admitted' });
      // The ledger was told of a plan that this node has not heard of.
      await real.setLimit(userId, 10);
      postgres.record = { userId, keyId: 'key', hourlyLimit: 10 };
      const asked: Admission[] = [];
      return {
        async a() {
          asked.push(await store.admit(keyHash));
        },
        async b() {
          // In Postgres: the ledger is told some time later.
          await gate('b');
          postgres.record = null;
        },
        async check(order) {
          const { admitted = 0, unknownKey = 0 } = outcomes(asked);
          t.equal(admitted + unknownKey, 1, order);
          const other = elsewhere(() => ({ userId, keyId: 'other', hourlyLimit: 10 }));
          const quota = { limit: 10, remaining: 10 - 1 - admitted - 1 };
          t.match(await other.admit(otherHash), { outcome: 'admitted', quota }, order);
          seen.add(admitted === 1 ? 'admitted' : 'unknownKey');
        },
      };
    });
    t.ok(orders > 2, `${orders} orders`);
    t.same(seen, new Set(['admitted', 'unknownKey']));
  });

  t.test('a key whose end is forgotten with many others stays refused, in every order of the steps', async (t) => {
    const orders = await everyOrder(async (gate) => {
      const { userId, keyHash, otherHash, postgres, real, store, elsewhere } = gatedNode(gate, 100);
      const ended = Array.from({ length: RECORD_KEYS_MAX - 1 }, (_, index) => String(index).padStart(64, '0'));
      await Promise.all(ended.map((hash) => real.revoke(userId, hash)));
      return {
        a: () => store.admit(keyHash),
        async b() {
          await gate('b');
          postgres.record = null;
          await store.revoke({ userId, keyHash });
          await gate('b');
          // One of them is the one too many.
          for (const digit of 'cdef') await real.revoke(userId, digit.repeat(64));
        },
        async check(order) {
          t.match(await store.admit(keyHash), { outcome: 'unknownKey' }, order);
          t.match(await elsewhere(() => null).admit(keyHash), { outcome: 'unknownKey' }, order);
          const owner = { userId, keyId: 'other', hourlyLimit: 100 };
          const other = elsewhere((hash) => (hash === otherHash ? owner : null));
          t.match(await other.admit(otherHash), { outcome: 'admitted' }, `${order}, another key`);
        },
      };
    });
    t.ok(orders > 20, `${orders} orders`);
  });
}

t.test(
  'the ledger hears whose key it is at first sight and in every hour of use, and nobody waits for that',
  async (t) => {
    const clock = { nowMs: SOON_MS };
    const told: string[] = [];
    const ledger: Ledger = {
      ...createMemoryLedger(() => clock.nowMs),
      rememberOwner(keyHash) {
        told.push(keyHash);
        return told.length === 1 ? Promise.reject(new LedgerAway('down')) : new Promise(() => undefined);
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

t.test('in memory', async (t) => suite(t, createMemoryLedger));

async function onRedis(t: Subtest, url: string): Promise<void> {
  const redis = await openRedis({
    url,
    onReturn: async () => undefined,
    onProblem: (problem) => t.fail(problem),
    ...patient,
  });
  const ledgerAt: LedgerAt = (clock) =>
    createRedisLedger(redis, { clockOffsetSeconds: () => Math.floor((clock() - Date.now()) / 1000) });
  await t.test('admission', async (t) => suite(t, ledgerAt));
  redis.close();
}

t.test('in Redis', async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  await onRedis(t, server.url);
});

t.test('in Redis Cluster', async (t) => {
  const cluster = await startRedisCluster();
  t.teardown(() => cluster.stop());
  await onRedis(t, cluster.url);
  const sizes = await Promise.all(cluster.masters.map(({ client }) => client.dbsize()));
  t.ok(
    sizes.every((size) => size > 0),
    `every master has a part: ${sizes.join(', ')}`,
  );
});
