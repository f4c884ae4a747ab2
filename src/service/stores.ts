// The stores of the service: Postgres or the embedded one, and admission over Redis or in this process.
import { randomUUID } from 'node:crypto';
import { limitOfUser } from '../account/users.js';
import type { Ledger } from '../admission/admission.js';
import { type AdmissionParts, type AdmissionStore, createAdmissions } from '../admission/admissions.js';
import {
  createKeyLoader,
  createLookups,
  type FindKey,
  recentRevocations,
  recentRules,
} from '../admission/key-owners.js';
import { createMemoryLedger } from '../admission/memory-ledger.js';
import { createQuotaHours, type QuotaHours } from '../admission/quota-hours.js';
import { createRedisLedger } from '../admission/redis-ledger.js';
import { createHandover, createTurns, type LedgerTurns } from '../admission/turns.js';
import type { Config } from '../config/config.js';
import type { Log } from '../log.js';
import { startEmbedded } from '../store/embedded/embedded.js';
import { openPostgres, type Postgres, type Sql } from '../store/postgres.js';
import type { RedisCommands } from '../store/redis/redis.js';
import { inBatches } from '../waiting/limiter.js';
import { type Stopping, starting } from './parts.js';

/** Without `socketDirectory` the embedded database, if it is wanted, is this process's own. */
export async function startStore({ databaseUrl, ...config }: Config, log: Log, socketDirectory: string | null) {
  return await starting(async (add) => {
    const embedded = async () => socketDirectory ?? add(await startOwnEmbedded(config, log)).socketDirectory;
    const place =
      databaseUrl === null
        ? ({ kind: 'embedded', socketDirectory: await embedded() } as const)
        : ({ kind: 'url', url: databaseUrl } as const);
    const postgres = await openPostgres({ ...place, log });
    add({ stop: () => postgres.close() });
    return { postgres };
  });
}

async function startOwnEmbedded(config: Pick<Config, 'dataDirectory' | 'databaseUser'>, log: Log) {
  const { dataDirectory, databaseUser: user } = config;
  log.info({ dataDirectory }, 'starting the embedded database');
  const { socketDirectory, ended, stop } = await startEmbedded({ dataDirectory, user, log });
  let isStopping = false;
  void ended.then((end) => {
    // Nobody starts it again, and nothing can be stored any more.
    if (!isStopping) throw new Error(`The embedded database has ended: ${end}`);
  });
  return {
    socketDirectory,
    stop(): Promise<void> {
      isStopping = true;
      return stop();
    },
  };
}

export interface StartedAdmission extends Stopping {
  readonly store: AdmissionStore;
  /** Whose live key it is, by its hash, as Postgres says now; nothing is counted. Throws Failure `unavailable`. */
  readonly findKey: FindKey;
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
): Promise<StartedAdmission> {
  const common = commonParts(config, log, sql);
  if (config.redisUrl === null) return admissionInProcess(common, takesOver);
  return await admissionInRedis(common, config.redisUrl, sql);
}

/** Admission for a trial: it asks Postgres what any other asks, but each key is live, and its user doesn't exist. Nothing of it is kept. */
export function startTrialAdmission(config: Config, log: Log, { admission: sql }: Postgres): StartedAdmission {
  const common = commonParts(config, log, sql);
  const users = new Map<string, string>();
  const findKey: FindKey = async (keyHash) => {
    await common.findKey(keyHash);
    const userId = users.get(keyHash) ?? randomUUID();
    users.set(keyHash, userId);
    return { userId, keyId: userId, hourlyLimit: Number.MAX_SAFE_INTEGER };
  };
  return admissionInProcess({ ...common, findKey }, false);
}

function commonParts(config: Config, log: Log, sql: Sql): CommonParts {
  return {
    findKey: createLookups(createKeyLoader(sql, config.plans)),
    hours: createQuotaHours(sql, config.redisUrl !== null),
    limitOf: (userId) => limitOfUser(sql, config.plans, userId),
    clock: Date.now,
    onProblem: (problem) => log.warn({ problem }, 'admission'),
  };
}

type CommonParts = Omit<AdmissionParts, 'ledger' | 'ledgerProblem'>;

function admissionInProcess(common: CommonParts, takesOver: boolean): StartedAdmission {
  const handover = createHandover(() => createMemoryLedger({ clock: Date.now }), common.hours, takesOver);
  const { ledger, hours } = handover;
  const store = createAdmissions({ ...common, hours, ledger, ledgerProblem: () => null });
  return {
    store,
    findKey: common.findKey,
    redis: null,
    async handOver() {
      handover.leave();
      // The mirror learns within this turn of units that were taken before.
      await new Promise((resolve) => setImmediate(resolve));
      await store.flush();
    },
    alone: () => handover.arrive(),
    stop: () => store.stop(),
  };
}

/** All processes count in Redis: there is nothing to hand over. */
async function admissionInRedis(common: CommonParts, url: string, sql: Sql): Promise<StartedAdmission> {
  // Its driver is read only where there is a Redis.
  const { openRedis } = await import('../store/redis/redis.js');
  return await starting(async (add) => {
    let turns: Pick<LedgerTurns, 'returning'> | null = null;
    const redis = await openRedis({ url, onReturn: async () => await turns?.returning(), onProblem: common.onProblem });
    add({ stop: async () => redis.close() });
    const ledger = createRedisLedger(redis);
    const shared = createTurns({
      ...{ sql, ledger, onProblem: common.onProblem },
      problem: () => redis.problem(),
      reconcile: () => reconcileLedger(ledger, common.hours, sql),
      // To Postgres, what this process knows of Redis's counts.
      flush: () => store.flush(),
    });
    turns = add({ ...shared, stop: async () => shared.stop() });
    const { isPostgres, problem } = shared;
    const store: AdmissionStore = add(
      createAdmissions({ ...common, ledger: shared.ledger, isPostgres, ledgerProblem: problem }),
    );
    return { store, findKey: common.findKey, redis, handOver: async () => undefined, alone: () => undefined };
  });
}

/**
 * Writes to Redis what happened while it was away: first keys that ended, the last one first, then what other keys may, then units that Postgres counted. To be called
 * before Redis is used again.
 */
export async function reconcileLedger(ledger: Ledger, hours: QuotaHours, sql: Sql): Promise<void> {
  await inBatches(await recentRevocations(sql), ({ userId, keyHash }) => ledger.revoke(userId, keyHash));
  await inBatches(await recentRules(sql), ({ userId, key }) => ledger.setKey(userId, key));
  await ledger.raise(await hours.current());
}
