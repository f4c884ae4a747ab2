// Admission while a key ends or a limit is set, in every order of the steps: for the ledger in memory, in Redis and in Redis Cluster.
import type { Test } from 'tap';
import { type Admission, type KeyRecord, type Ledger, RECORD_KEYS_MAX } from '../../src/admission/admission.js';
import { everyOrder, type Gate } from '../fixtures/orders.js';
import { keysOf, type LedgerAt, newUserId, nodesAt, onEachLedger, outcomes, SOON_MS } from './harness.js';

async function suite(t: Test, ledgerAt: LedgerAt): Promise<void> {
  const node = nodesAt(t, ledgerAt);

  /**
   * A new user and a node: its ledger with a gate before each step, and what it asks Postgres with one before and one behind, for it
   * may be old on arrival.
   */
  function gatedNode(gate: Gate, hourlyLimit: number) {
    const userId = newUserId();
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
          a: async () => store.admit(keyHash),
          async b() {
            await gate('b');
            postgres.record = null;
            await store.revoke({ userId, keyHash });
          },
          async check(order) {
            t.match(await store.admit(keyHash), { outcome: 'keyInvalid' }, order);
            t.match(await elsewhere(() => null).admit(keyHash), { outcome: 'keyInvalid' }, order);
            const late = await elsewhere(() => record).admit(keyHash);
            t.match(late, { outcome: 'keyInvalid' }, `${order}, a node with an old read`);
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
      // The ledger has a plan that this node has not heard of.
      await real.setLimit(userId, 10);
      postgres.record = { userId, keyId: 'key', hourlyLimit: 10 };
      const asked: Admission[] = [];
      return {
        async a() {
          asked.push(await store.admit(keyHash));
        },
        async b() {
          // In Postgres: the ledger gets it some time later.
          await gate('b');
          postgres.record = null;
        },
        async check(order) {
          const { admitted = 0, keyInvalid = 0 } = outcomes(asked);
          t.equal(admitted + keyInvalid, 1, order);
          const other = elsewhere(() => ({ userId, keyId: 'other', hourlyLimit: 10 }));
          const quota = { limit: 10, remaining: 10 - 1 - admitted - 1 };
          t.match(await other.admit(otherHash), { outcome: 'admitted', quota }, order);
          seen.add(admitted === 1 ? 'admitted' : 'keyInvalid');
        },
      };
    });
    t.ok(orders > 2, `${orders} orders`);
    t.same(seen, new Set(['admitted', 'keyInvalid']));
  });

  t.test('a key whose end is forgotten with many others stays refused, in every order of the steps', async (t) => {
    const orders = await everyOrder(async (gate) => {
      const { userId, keyHash, otherHash, postgres, real, store, elsewhere } = gatedNode(gate, 100);
      const ended = Array.from({ length: RECORD_KEYS_MAX - 1 }, (_, index) => String(index).padStart(64, '0'));
      await Promise.all(ended.map((hash) => real.revoke(userId, hash)));
      return {
        a: async () => store.admit(keyHash),
        async b() {
          await gate('b');
          postgres.record = null;
          await store.revoke({ userId, keyHash });
          await gate('b');
          // One of them is the one too many.
          for (const digit of 'cdef') await real.revoke(userId, digit.repeat(64));
        },
        async check(order) {
          t.match(await store.admit(keyHash), { outcome: 'keyInvalid' }, order);
          t.match(await elsewhere(() => null).admit(keyHash), { outcome: 'keyInvalid' }, order);
          const owner = { userId, keyId: 'other', hourlyLimit: 100 };
          const other = elsewhere((hash) => (hash === otherHash ? owner : null));
          t.match(await other.admit(otherHash), { outcome: 'admitted' }, `${order}, another key`);
        },
      };
    });
    t.ok(orders > 20, `${orders} orders`);
  });
}

onEachLedger(suite);
