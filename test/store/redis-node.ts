// A node of the service as Redis sees it: its own connections to a Redis and a Postgres that it shares with others, and one user's key.
import type { Test } from 'tap';
import { createKey } from '../../src/account/keys.js';
import { type AdmissionStore, createAdmissions } from '../../src/admission/admissions.js';
import { createKeyLoader, createLookups } from '../../src/admission/key-owners.js';
import { createQuotaHours } from '../../src/admission/quota-hours.js';
import { createRedisLedger } from '../../src/admission/redis-ledger.js';
import { createTurns, type LedgerTurns } from '../../src/admission/turns.js';
import { reconcileLedger } from '../../src/service/stores.js';
import { hashOfKey } from '../../src/store/keys.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { openRedis } from '../../src/store/redis/redis.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { newUser } from '../fixtures/new-user.js';
import { planOf } from '../fixtures/plans.js';
import type { PostgresServer } from '../fixtures/postgres.js';
import { until } from '../fixtures/until.js';

export const LIMIT = 100;

export interface NodeOptions {
  readonly clock?: () => number;
  /** Default true: as the service does when Redis returns. */
  readonly reconciles?: boolean;
}

export async function node(t: Test, redisServer: { readonly url: string }, sql: Sql, options: NodeOptions = {}) {
  const hours = createQuotaHours(sql, true);
  const problems: string[] = [];
  const onProblem = (problem: string): void => void problems.push(problem);
  let returns = 0;
  let turns: LedgerTurns | null = null;
  const redis = await openRedis({
    url: redisServer.url,
    onReturn: async () => {
      await turns?.returning();
      returns += 1;
    },
    onProblem,
  });
  t.teardown(() => redis.close());
  const ledger = createRedisLedger(redis);
  turns = createTurns({
    sql,
    ledger,
    problem: () => redis.problem(),
    reconcile: async () => {
      if (options.reconciles ?? true) await reconcileLedger(ledger, hours, sql);
    },
    flush: () => store.flush(),
    onProblem,
  });
  t.teardown(() => turns?.stop());
  const store: AdmissionStore = createAdmissions({
    ledger: turns.ledger,
    isPostgres: turns.isPostgres,
    findKey: createLookups(createKeyLoader(sql, [planOf('FREE', LIMIT)])),
    limitOf: async () => LIMIT,
    hours,
    clock: options.clock ?? Date.now,
    ledgerProblem: turns.problem,
    onProblem,
  });
  t.teardown(() => store.stop());
  /** Waits until Redis is used again. */
  async function isBack(): Promise<void> {
    const before = returns;
    await until(() => store.problem() === null && returns > before);
  }
  return { store, problems, redis, isBack };
}

/** A database of its own with one user and his key. */
export async function setUp(t: Test, server: PostgresServer) {
  const { sql, close } = await openPostgres({ kind: 'url', url: await server.database() });
  t.teardown(() => close());
  const userId = await newUser(sql);
  const key = await createKey(sql, { userId, name: 'one' });
  // A test that reaches over the end of an hour would count two.
  await enoughOfTheHour();
  return { sql, userId, keyId: key.keyId, keyHash: hashOfKey(key.value) };
}

/** Asks all the nodes at once, so many rounds; what came of it is added up. */
export function asking(stores: readonly AdmissionStore[], keyHash: string) {
  const counts = { admitted: 0, exhausted: 0, keyInvalid: 0, scopeMissing: 0 };
  const ask = async (rounds: number): Promise<void> => {
    for (let round = 0; round < rounds; round += 1) {
      for (const { outcome } of await Promise.all(stores.map((store) => store.admit(keyHash)))) counts[outcome] += 1;
    }
  };
  return { counts, ask };
}

/** One after the other; how many were admitted. */
export async function askOne(store: AdmissionStore, keyHash: string, count: number): Promise<number> {
  const { counts, ask } = asking([store], keyHash);
  await ask(count);
  return counts.admitted;
}
