// A look at what is left of the hour takes nothing, on every kind of ledger and while it is away.
import { hashOfKey } from '../../src/store/keys.js';
import { StoreAway } from '../../src/store/store-error.js';
import { createHours } from '../fixtures/accounts.js';
import { newUserId, nodesAt, onEachLedger, SOON_MS } from './harness.js';

const HOUR_SECONDS = 3600;

onEachLedger(async (t, ledgerAt) => {
  t.test('what was taken is seen, and looking takes nothing', async (t) => {
    const userId = newUserId();
    const { store, clock } = nodesAt(t, ledgerAt)(async () => null);
    const user = { userId, hourlyLimit: 3 };
    const resetEpochSeconds = SOON_MS / 1000 - ((SOON_MS / 1000) % HOUR_SECONDS) + HOUR_SECONDS;
    for (let look = 0; look < 5; look += 1) {
      t.strictSame(await store.quotaOf(user), { limit: 3, remaining: 3, resetEpochSeconds });
    }
    for (const remaining of [2, 1, 0, 0]) {
      await store.admitUser(user);
      t.match(await store.quotaOf(user), { remaining });
    }
    t.match(await store.quotaOf({ userId, hourlyLimit: 5 }), { limit: 5, remaining: 2 }, 'another plan counts at once');
    clock.nowMs += HOUR_SECONDS * 1000;
    t.match(await store.quotaOf(user), { remaining: 3, resetEpochSeconds: resetEpochSeconds + HOUR_SECONDS });
  });

  t.test("while the ledger is away the look is at what Postgres knows, in the hour of Postgres's clock", async (t) => {
    const userId = newUserId();
    const away = (): never => {
      throw new StoreAway(new Error(hashOfKey('')));
    };
    const make = nodesAt(t, ledgerAt);
    const clock = { nowMs: SOON_MS };
    const ledger = ledgerAt(() => clock.nowMs);
    const hours = createHours(() => clock.nowMs + HOUR_SECONDS * 1000);
    const { store } = make(
      async () => null,
      clock,
      { ...ledger, take: async () => away(), look: async () => away() },
      hours,
    );
    const user = { userId, hourlyLimit: 3 };
    await store.admitUser(user);
    const resetEpochSeconds = SOON_MS / 1000 - ((SOON_MS / 1000) % HOUR_SECONDS) + 2 * HOUR_SECONDS;
    t.strictSame(await store.quotaOf(user), { limit: 3, remaining: 2, resetEpochSeconds });
  });
});
