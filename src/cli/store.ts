// The store as a command has it: opened and migrated, never made, for as long as the command needs it, beside a running service where that is possible.
import { setTimeout as delay } from 'node:timers/promises';
import type { Ledger } from '../admission/admission.js';
import { createRedisLedger } from '../admission/redis-ledger.js';
import type { Config } from '../config/config.js';
import { codeOf } from '../error-text.js';
import { Unavailable } from '../errors.js';
import type { Nodes } from '../operator/changes.js';
import { embeddedSocketDirectory, startEmbedded } from '../store/embedded/embedded.js';
import { openPostgres, type Postgres, type Sql } from '../store/postgres.js';
import { openRedis } from '../store/redis/redis.js';
import { StoreAway, StoreInUse } from '../store/store-error.js';
import { Refusal } from './output.js';

/** The database of a server that has just been started, its repair after a crash included. */
const STARTS_WITHIN_MS = 10_000;
const RETRY_MS = 50;
/** No socket, nobody behind it, or a database that starts or stops (57P03, cannot_connect_now). */
const NOT_THERE = new Set(['ENOENT', 'ECONNREFUSED', '57P03', 'CONNECTION_CLOSED']);

/** Throws a Refusal or a StoreError when the store can't be opened. */
export async function withStore<T>(config: Config, work: (sql: Sql) => Promise<T>): Promise<T> {
  const { postgres, stop } = await (config.databaseUrl === null ? reachEmbedded(config) : reach(config.databaseUrl));
  try {
    return await work(postgres.sql);
  } finally {
    await postgres.close();
    await stop();
  }
}

/** One that nobody has used yet, made where there is none. Throws a Refusal while a service runs on it. */
export async function withNewStore<T>(config: Config, work: (sql: Sql) => Promise<T>): Promise<T> {
  const { postgres, stop } = await (config.databaseUrl === null
    ? startOwn(config.dataDirectory, config.databaseUser, true)
    : reach(config.databaseUrl, true));
  try {
    return await work(postgres.sql);
  } finally {
    await postgres.close();
    await stop();
  }
}

interface Reached {
  readonly postgres: Postgres;
  /** Ends what was started for it. */
  stop(): Promise<void>;
}

async function reach(url: string, mayBeEmpty = false): Promise<Reached> {
  return { postgres: await openPostgres({ kind: 'url', url, mayBeEmpty }), stop: async () => undefined };
}

/** The one that a server or another command runs, or else one for as long as this command needs it. */
async function reachEmbedded({ dataDirectory, databaseUser: user }: Config): Promise<Reached> {
  for (const deadlineMs = performance.now() + STARTS_WITHIN_MS; ; ) {
    try {
      return await startOwn(dataDirectory, user);
    } catch (error) {
      if (!(error instanceof StoreInUse)) throw error;
      const running = await openRunning(dataDirectory);
      if (running !== null) return { postgres: running, stop: async () => undefined };
      if (performance.now() > deadlineMs) throw new Refusal(`${error.message}: its database does not answer`);
    }
    await delay(RETRY_MS);
  }
}

async function startOwn(dataDirectory: string, user: string | null, mayBeEmpty = false): Promise<Reached> {
  const { socketDirectory, stop } = await startEmbedded({ dataDirectory, user });
  try {
    return { postgres: await openPostgres({ kind: 'embedded', socketDirectory, mayBeEmpty }), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Null: the process that has the folder is still starting its database, or has just ended it. */
async function openRunning(dataDirectory: string): Promise<Postgres | null> {
  try {
    return await openPostgres({
      kind: 'embedded',
      socketDirectory: embeddedSocketDirectory(dataDirectory),
      mayBeEmpty: false,
    });
  } catch (error) {
    if (NOT_THERE.has(codeOf(error) ?? '')) return null;
    throw error;
  }
}

interface ToldNodes extends Nodes {
  /** False: there is no Redis, and running servers ask Postgres after at most NODES_ASK_SECONDS. */
  readonly areTold: boolean;
}

/** What a server believes of a key or a plan before it asks Postgres again (admission/admissions.ts). */
export const NODES_ASK_SECONDS = 15;

export async function withNodes<T>(config: Config, work: (nodes: ToldNodes) => Promise<T>): Promise<T> {
  if (config.redisUrl === null) {
    return await work({ areTold: false, revoke: async () => undefined, setLimit: async () => undefined });
  }
  // When Redis returns, the servers reconcile it with what was missed meanwhile.
  const nothing = async () => undefined;
  const redis = await openRedis({ url: config.redisUrl, onReturn: nothing, onProblem: () => undefined });
  const ledger = createRedisLedger(redis);
  try {
    return await work({
      areTold: true,
      revoke: ({ userId, keyHash }) => tell(ledger, (it) => it.revoke(userId, keyHash)),
      setLimit: (userId, hourlyLimit) => tell(ledger, (it) => it.setLimit(userId, hourlyLimit)),
    });
  } finally {
    redis.close();
  }
}

async function tell(ledger: Ledger, message: (ledger: Ledger) => Promise<void>): Promise<void> {
  try {
    await message(ledger);
  } catch (error) {
    if (!(error instanceof StoreAway)) throw error;
    throw new Unavailable('redisDown');
  }
}
