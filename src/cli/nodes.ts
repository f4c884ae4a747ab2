// The running servers as a command reaches them: through Redis where there is one; otherwise they ask Postgres themselves, a while later.
import type { KeyRevocation } from '../account/revocation.js';
import type { Ledger } from '../admission/ledger.js';
import { createRedisLedger } from '../admission/redis-ledger.js';
import type { Config } from '../config/types.js';
import { Unavailable } from '../errors.js';
import { openRedis } from '../store/redis/redis.js';
import { StoreAway } from '../store/store-error.js';

export interface Nodes extends KeyRevocation {
  /** False: there is no Redis, and running servers ask Postgres after at most NODES_ASK_SECONDS. */
  readonly areTold: boolean;
  /** The next admission counts against the new limit. Throws Failure('unavailable'). */
  setLimit(userId: string, hourlyLimit: number): Promise<void>;
}

/** What a server believes of a key or a plan before it asks Postgres again (store/admissions.ts). */
export const NODES_ASK_SECONDS = 15;

export async function withNodes<T>(config: Config, work: (nodes: Nodes) => Promise<T>): Promise<T> {
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
