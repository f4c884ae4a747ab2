// Admission, one suite for the ledger in memory, in Redis and in Redis Cluster: exact, by the hour, and deaf to no revocation in any order.
import t from 'tap';
import type { Admission, KeyRecord } from '../../src/store/admission.js';
import type { Ledger } from '../../src/store/ledger.js';
import { createMemoryLedger } from '../../src/store/memory-ledger.js';
import { openRedis } from '../../src/store/redis.js';
import { createRedisLedger } from '../../src/store/redis-ledger.js';
import { createHours, createTestAdmissions, loaderOf } from '../fixtures/accounts.js';
import { startRedis, startRedisCluster } from '../fixtures/redis.js';

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

  t.test('a key is refused after its revocation, in every order of the steps', async (t) => {
    for (const start of ['cold', 'warm'] as const) {
      const orders = await everyOrder(start);
      t.ok(orders > (start === 'cold' ? 20 : 2), `${orders} orders from a ${start} start`);
    }

    /** Runs admission and revocation step by step, in each order that there is; returns how many there were. */
    async function everyOrder(start: 'cold' | 'warm'): Promise<number> {
      const pending: string[] = [''];
      let orders = 0;
      for (let prefix = pending.pop(); prefix !== undefined; prefix = pending.pop()) {
        const choices = await run(prefix, start);
        orders += 1;
        // Every later step at which the other one could have gone first is an order of its own.
        for (let at = prefix.length; at < choices.length; at += 1) {
          if (choices[at] === 'a?')
            pending.push(
              `${choices
                .slice(0, at)
                .map((one) => one[0])
                .join('')}r`,
            );
        }
      }
      return orders;
    }

    async function run(prefix: string, start: 'cold' | 'warm'): Promise<string[]> {
      const userId = newUser();
      const keyHash = userId.replaceAll('-', '').padEnd(64, '0');
      const gates = { a: [] as (() => void)[], r: [] as (() => void)[] };
      let isGated = false;
      const gate = (who: 'a' | 'r') =>
        isGated ? new Promise<void>((open) => gates[who].push(open)) : Promise.resolve();
      let live = true;
      const clock = { nowMs: SOON_MS };
      const real = ledgerAt(() => clock.nowMs);
      const gated: Ledger = {
        ...real,
        take: async (...all) => gate('a').then(() => real.take(...all)),
        begin: async (...all) => gate('a').then(() => real.begin(...all)),
        fill: async (...all) => gate('a').then(() => real.fill(...all)),
        revoke: async (...all) => gate('r').then(() => real.revoke(...all)),
      };
      const { store } = node(
        async () => {
          await gate('a');
          const record = live ? { userId, keyId: 'key', hourlyLimit: 100 } : null;
          // What was read is on its way: it may be old when it arrives.
          await gate('a');
          return record;
        },
        clock,
        gated,
      );
      if (start === 'warm') await store.admit(keyHash);
      isGated = true;
      let done = 0;
      let result: Admission | null = null;
      const admission = store.admit(keyHash).then((one) => {
        result = one;
        done += 1;
      });
      let revoked = false;
      let resultAtRevoke: Admission | null = null;
      const revocation = (async () => {
        await gate('r');
        live = false;
        await store.revoke({ userId, keyHash });
        revoked = true;
        resultAtRevoke = result;
        done += 1;
      })();
      const choices: string[] = [];
      while (done < 2) {
        await settled(() => done === 2 || gates.a.length + gates.r.length >= 2 - done);
        if (done === 2) break;
        const wanted = prefix[choices.length];
        const canChoose = gates.a.length > 0 && gates.r.length > 0;
        const who = gates.a.length === 0 ? 'r' : gates.r.length === 0 ? 'a' : wanted === 'r' ? 'r' : 'a';
        choices.push(canChoose && who === 'a' ? 'a?' : who);
        gates[who].shift()?.();
      }
      await Promise.all([admission, revocation]);
      isGated = false;
      t.ok(revoked);
      const order = choices.map((one) => one[0]).join('');
      if (resultAtRevoke === null) {
        // It was still being asked when the revocation returned: either answer is right, but it leaves nothing behind.
        t.ok(result !== null, order);
      }
      t.match(await store.admit(keyHash), { outcome: 'unknownKey' }, order);
      const elsewhere = node(async () => null, clock, real);
      t.match(await elsewhere.store.admit(keyHash), { outcome: 'unknownKey' }, order);
      const believing = node(async () => ({ userId, keyId: 'key', hourlyLimit: 100 }), clock, real);
      t.match(await believing.store.admit(keyHash), { outcome: 'unknownKey' }, `${order}, a node with an old read`);
      return choices;
    }

    async function settled(isSettled: () => boolean): Promise<void> {
      while (!isSettled()) await new Promise(setImmediate);
    }
  });
}

t.test('in memory', async (t) => suite(t, createMemoryLedger));

async function onRedis(t: Subtest, url: string): Promise<void> {
  const redis = await openRedis({ url, onReturn: async () => undefined, onProblem: (problem) => t.fail(problem) });
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
