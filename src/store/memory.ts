// Admission in this process, for a service that is alone: keys cached from Postgres, quota counted here.
import { Failure } from '../errors.js';
import { type Admission, type AdmissionStore, type LiveKey, quotaState, windowStartOf } from './admission.js';

/** The truth about a key, from Postgres: null when it is unknown or revoked. */
export type FindKey = (keyHash: string) => Promise<LiveKey | null>;

interface Usage {
  windowStartSeconds: number;
  used: number;
  limit: number;
}

/** Look-ups of unknown keys under way at one time: whoever tries keys at random gets 503, and Postgres stays free. */
const LOOKUPS_MAX = 64;
/** Live keys kept; beyond it the oldest is looked up again. A key takes about 300 bytes. */
const KEYS_MAX = 100_000;
const RETRY_SECONDS = 2;

export function createMemoryAdmission(findKey: FindKey): AdmissionStore {
  const keys = new Map<string, LiveKey>();
  const usages = new Map<string, Usage>();
  const lookups = new Map<string, { readonly found: Promise<LiveKey | null>; revoked: boolean }>();
  let newestWindowSeconds = 0;

  async function lookUp(keyHash: string): Promise<LiveKey | null> {
    const pending = lookups.get(keyHash);
    if (pending !== undefined) return answerOf(keyHash, pending);
    if (lookups.size >= LOOKUPS_MAX) throw new Failure('unavailable', 'Too many key look-ups at once', RETRY_SECONDS);
    const lookup = { found: findKey(keyHash), revoked: false };
    lookups.set(keyHash, lookup);
    try {
      return await answerOf(keyHash, lookup);
    } catch {
      throw new Failure('unavailable', 'The account store is not reachable', RETRY_SECONDS);
    } finally {
      lookups.delete(keyHash);
    }
  }

  /** What was read before a revocation must not come back after it: the mark on the look-up is its tombstone. */
  async function answerOf(keyHash: string, lookup: { found: Promise<LiveKey | null>; revoked: boolean }): Promise<LiveKey | null> {
    const key = await lookup.found;
    if (key === null || lookup.revoked) return null;
    keep(keyHash, key);
    return key;
  }

  function keep(keyHash: string, key: LiveKey): void {
    if (keys.size >= KEYS_MAX) for (const oldest of keys.keys()) {
      keys.delete(oldest);
      break;
    }
    keys.set(keyHash, key);
  }

  function usageOf(key: LiveKey, windowStartSeconds: number): Usage {
    if (windowStartSeconds > newestWindowSeconds) {
      newestWindowSeconds = windowStartSeconds;
      usages.clear();
    }
    const usage = usages.get(key.userId);
    if (usage !== undefined) return usage;
    const fresh = { windowStartSeconds: newestWindowSeconds, used: 0, limit: key.hourlyLimit };
    usages.set(key.userId, fresh);
    return fresh;
  }

  function take(key: LiveKey, nowMs: number): Admission {
    const { keyId, userId, hourlyLimit } = key;
    const usage = usageOf(key, windowStartOf(nowMs));
    const admitted = usage.used < hourlyLimit;
    if (admitted) usage.used += 1;
    const quota = quotaState(hourlyLimit, usage.used, usage.windowStartSeconds);
    if (!admitted) return { outcome: 'exhausted', userId, keyId, quota };
    return { outcome: 'admitted', userId, keyId, quota, windowStartSeconds: usage.windowStartSeconds };
  }

  return {
    async admit(keyHash, nowMs) {
      const key = keys.get(keyHash) ?? (await lookUp(keyHash));
      return key === null ? { outcome: 'unknownKey' } : take(key, nowMs);
    },
    async refund(userId, windowStartSeconds) {
      const usage = usages.get(userId);
      if (usage === undefined || usage.windowStartSeconds !== windowStartSeconds) return null;
      usage.used = Math.max(0, usage.used - 1);
      return quotaState(usage.limit, usage.used, windowStartSeconds);
    },
    async revoke(keyHash) {
      keys.delete(keyHash);
      const lookup = lookups.get(keyHash);
      if (lookup !== undefined) lookup.revoked = true;
    },
  };
}
