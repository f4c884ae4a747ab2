// What the suites of admission share: users and keys of a test's own, nodes at a ledger, and each kind of ledger in turn.
import t, { type Test } from 'tap';
import type { Admission, KeyRecord, Ledger } from '../../src/admission/admission.js';
import type { AdmissionStore } from '../../src/admission/admissions.js';
import { createRedisLedger } from '../../src/admission/redis-ledger.js';
import { openRedis } from '../../src/store/redis/redis.js';
import { createHours, createTestAdmissions, createTestLedger, loaderOf } from '../fixtures/accounts.js';
import { patient, startRedis, startRedisCluster } from '../fixtures/redis.js';

/** The clock is that of the ledger too. */
export type LedgerAt = (clock: () => number) => Ledger;

/** Some minutes into an hour: a test doesn't last to its end. */
export const SOON_MS = Date.UTC(2026, 10, 21, 12, 5);
let users = 0;

/** Every test has a user of its own: Redis is one for all of them. */
export function newUserId(): string {
  users += 1;
  return `00000000-0000-7000-8000-${String(users).padStart(12, '0')}`;
}

/** Two keys of nobody else's. */
export function keysOf(userId: string): [string, string] {
  const digits = userId.replaceAll('-', '');
  return [digits.padEnd(64, 'a'), digits.padEnd(64, 'b')];
}

export function outcomes(admissions: readonly Admission[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of admissions) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

export interface TestNode {
  readonly store: AdmissionStore;
  readonly hours: ReturnType<typeof createHours>;
  readonly clock: { nowMs: number };
}

export type Find = (keyHash: string) => Promise<KeyRecord | null>;

/** Makes nodes at that kind of ledger, or at the one that is given. */
export function nodesAt(t: Test, ledgerAt: LedgerAt) {
  return (find: Find, clock = { nowMs: SOON_MS }, ledger?: Ledger, kept?: TestNode['hours']): TestNode => {
    const now = () => clock.nowMs;
    const hours = kept ?? createHours(now);
    const store = createTestAdmissions({ load: loaderOf(find), clock: now, ledger: ledger ?? ledgerAt(now), hours });
    t.teardown(() => store.stop());
    return { store, hours, clock };
  };
}

/** The suite in memory, in Redis, and in a cluster of which every master has a part. */
export function onEachLedger(suite: (t: Test, ledgerAt: LedgerAt) => Promise<void>): void {
  t.test('in memory', async (t) => suite(t, (clock) => createTestLedger(clock)));

  t.test('in Redis', async (t) => {
    const server = await startRedis({ t });
    await onRedis(t, server.url, suite);
  });

  t.test('in Redis Cluster', async (t) => {
    const cluster = await startRedisCluster({ t });
    await onRedis(t, cluster.url, suite);
    const sizes = await Promise.all(cluster.masters.map(({ client }) => client.dbsize()));
    t.ok(
      sizes.every((size) => size > 0),
      `every master has a part: ${sizes.join(', ')}`,
    );
  });
}

async function onRedis(t: Test, url: string, suite: (t: Test, ledgerAt: LedgerAt) => Promise<void>) {
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
