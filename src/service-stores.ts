// The stores of the service: Postgres or the embedded one, and admission over Redis or in this process.
import { createKeyLoader, recentRevocations } from './account/keys.js';
import { createPlanLimits } from './account/plans.js';
import { planOf } from './account/users.js';
import type { Config } from './config-types.js';
import type { Log } from './log.js';
import type { AdmissionStore } from './store/admission.js';
import { createAdmissions } from './store/admissions.js';
import { inBatches } from './store/batches.js';
import { startEmbedded } from './store/embedded.js';
import { createHandover } from './store/handover.js';
import type { Ledger } from './store/ledger.js';
import { createLookups, type Lookups } from './store/lookups.js';
import { createMemoryLedger } from './store/memory-ledger.js';
import { openPostgres, type Postgres, type Sql } from './store/postgres.js';
import { createQuotaHours, type QuotaHours } from './store/quota-hours.js';
import { openRedis, type RedisCommands } from './store/redis.js';
import { createRedisLedger } from './store/redis-ledger.js';

/** Without `socketDirectory` the embedded database, if it is wanted, is this process's own. */
export async function startStore(
  config: Config,
  log: Log,
  socketDirectory: string | null,
  stops: (() => Promise<void>)[],
): Promise<Postgres> {
  if (config.databaseUrl !== null) {
    const postgres = await openPostgres({ kind: 'url', url: config.databaseUrl });
    stops.push(() => postgres.close());
    return postgres;
  }
  const postgres = await openPostgres({
    kind: 'embedded',
    socketDirectory: socketDirectory ?? (await startOwnEmbedded(config, log, stops)),
  });
  stops.push(() => postgres.close());
  return postgres;
}

async function startOwnEmbedded(config: Config, log: Log, stops: (() => Promise<void>)[]): Promise<string> {
  const { dataDirectory, databaseUser: user } = config;
  log.info({ dataDirectory }, 'starting the embedded database');
  const { socketDirectory, ended, stop } = await startEmbedded({ dataDirectory, user, log });
  let isStopping = false;
  void ended.then((end) => {
    // Nobody starts it again, and nothing can be stored any more.
    if (!isStopping) throw new Error(`The embedded database has ended: ${end}`);
  });
  stops.push(() => {
    isStopping = true;
    return stop();
  });
  return socketDirectory;
}

export interface Admission {
  readonly store: AdmissionStore;
  /** Whose live key it is, by its hash, as Postgres says now; nothing is counted. Throws Failure `unavailable`. */
  readonly findKey: Lookups['find'];
  /** For what else processes share; null: they share nothing. */
  readonly redis: RedisCommands | null;
  /** Another process takes over: when it resolves, all counts are where that one finds them. */
  handOver(): Promise<void>;
  /** The process that was here before is gone. */
  alone(): void;
}

/** `takesOver`: another process still counts, and says so when it doesn't any more. */
export async function startAdmission(
  config: Config,
  log: Log,
  { admission: sql }: Postgres,
  takesOver: boolean,
  stops: (() => Promise<void>)[],
): Promise<Admission> {
  const hours = createQuotaHours(sql);
  const onProblem = (problem: string): void => log.warn({ problem }, 'admission');
  const limits = createPlanLimits(config.plans);
  const lookups = createLookups(createKeyLoader(sql, limits));
  const common = {
    lookups,
    async limitOf(userId: string): Promise<number | null> {
      const plan = await planOf(sql, userId);
      return plan === null ? null : limits(plan);
    },
    onProblem,
  };
  if (config.redisUrl === null) {
    const handover = createHandover(() => createMemoryLedger(Date.now), hours, takesOver);
    const { ledger, hours: counted } = handover;
    const store = createAdmissions({ ...common, hours: counted, ledger, clock: Date.now, ledgerProblem: () => null });
    stops.push(() => store.stop());
    return {
      store,
      findKey: lookups.find,
      redis: null,
      async handOver() {
        handover.leave();
        // Units that were taken before are told to the mirror within this turn.
        await new Promise((resolve) => setImmediate(resolve));
        await store.flush();
        handover.left();
      },
      alone: () => handover.arrive(),
    };
  }
  const redis = await openRedis({
    url: config.redisUrl,
    onReturn: (commands) => settle(createRedisLedger(commands), hours, sql),
    onProblem,
  });
  stops.push(async () => redis.close());
  const ledger = createRedisLedger(redis);
  const store = createAdmissions({
    ...common,
    hours,
    ledger,
    clock: Date.now,
    ledgerProblem: () => redis.problem(),
  });
  stops.push(() => store.stop());
  // All processes count in Redis: there is nothing to hand over.
  return { store, findKey: lookups.find, redis, handOver: async () => undefined, alone: () => undefined };
}

/**
 * What happened while Redis was away, told to it: keys that ended, the last one first, then units that Postgres counted. What is left
 * when Redis is used again is told then; meanwhile nodes ask Postgres for what they haven't asked in the last seconds.
 */
export async function settle(ledger: Ledger, hours: QuotaHours, sql: Sql): Promise<void> {
  await inBatches(await recentRevocations(sql), ({ userId, keyHash }) => ledger.revoke(userId, keyHash));
  await ledger.raise(await hours.current());
}
