// Admission in this process: live keys and the hour's counters in memory, Postgres asked for what isn't there.
import {
  type Admission,
  type AdmissionStore,
  areNeighbours,
  type KeyLoader,
  type KeyRecord,
  quotaState,
  windowStart,
} from './admission.js';
import { createLookups } from './lookups.js';
import { within } from './within.js';

/** Keys in memory, some 300 bytes each; the one that came first makes room. */
const KEYS_MAX = 100_000;
/** Revoked keys that are remembered; older ones are refused by Postgres. */
const TOMBSTONES_MAX = 100_000;
/** After this Postgres is asked again, for what other processes did to the key or its plan. */
const FRESH_MS = 15_000;
/** A known key doesn't wait longer than this for Postgres: what it said last is taken, and it is asked again a while later. */
const REFRESH_TIMEOUT_MS = 250;
const REFRESH_RETRY_MS = 1_000;

interface Cached {
  readonly record: KeyRecord;
  readonly filledAtMs: number;
}

/** One user's hour. */
interface Counter {
  used: number;
  limit: number;
}

/**
 * Exact for one process. A user's units are counted by user, so several keys share them. The step from the check to the
 * counting has no await in it: that is what makes it atomic.
 */
export function createMemoryAdmission(load: KeyLoader): AdmissionStore {
  const keys = new Map<string, Cached>();
  const tombstones = new Set<string>();
  const windows = new Map<number, Map<string, Counter>>();
  const lookups = createLookups(load);

  function live(keyHash: string, nowMs: number): KeyRecord | null {
    const cached = keys.get(keyHash);
    return cached !== undefined && Math.abs(nowMs - cached.filledAtMs) < FRESH_MS ? cached.record : null;
  }

  /** Only the hours next to this one are kept: a clock that is set back over the full hour must find its counters. */
  function windowAt(startSeconds: number): Map<string, Counter> {
    const known = windows.get(startSeconds);
    if (known !== undefined) return known;
    for (const start of windows.keys()) {
      if (!areNeighbours(start, startSeconds)) windows.delete(start);
    }
    const fresh = new Map<string, Counter>();
    windows.set(startSeconds, fresh);
    return fresh;
  }

  function take({ userId, keyId, hourlyLimit }: KeyRecord, nowMs: number): Admission {
    const windowStartSeconds = windowStart(nowMs);
    const window = windowAt(windowStartSeconds);
    let counter = window.get(userId);
    if (counter === undefined) {
      counter = { used: 0, limit: hourlyLimit };
      window.set(userId, counter);
    }
    counter.limit = hourlyLimit;
    if (counter.used >= counter.limit) {
      return {
        outcome: 'exhausted',
        userId,
        keyId,
        quota: quotaState(counter.limit, counter.used, windowStartSeconds),
      };
    }
    counter.used += 1;
    const quota = quotaState(counter.limit, counter.used, windowStartSeconds);
    return { outcome: 'admitted', userId, keyId, quota, windowStartSeconds };
  }

  /** What Postgres says now; it is remembered also when nobody waits for it any more. */
  async function fill(keyHash: string, nowMs: number): Promise<KeyRecord | null> {
    const record = await lookups.find(keyHash);
    if (record === null) keys.delete(keyHash);
    else if (!tombstones.has(keyHash)) remember(keyHash, { record, filledAtMs: nowMs });
    return record;
  }

  /** Postgres is away or slow: what it said last holds until it is back. */
  async function refresh(keyHash: string, old: Cached, nowMs: number): Promise<KeyRecord | null> {
    try {
      return await within(fill(keyHash, nowMs), REFRESH_TIMEOUT_MS);
    } catch {
      // Whatever the reason is, a key that isn't in memory meets it too, and tells it. What came meanwhile is newer than ours.
      if (keys.get(keyHash) === old) {
        keys.set(keyHash, { record: old.record, filledAtMs: nowMs - FRESH_MS + REFRESH_RETRY_MS });
        return old.record;
      }
      return keys.get(keyHash)?.record ?? (await fill(keyHash, nowMs));
    }
  }

  function remember(keyHash: string, cached: Cached): void {
    keys.set(keyHash, cached);
    if (keys.size > KEYS_MAX) dropFirst(keys);
  }

  async function admitUnseen(keyHash: string, nowMs: number): Promise<Admission> {
    const old = keys.get(keyHash);
    const record = await (old === undefined ? fill(keyHash, nowMs) : refresh(keyHash, old, nowMs));
    // Looked at after the wait: the key may have been revoked in it.
    return record === null || tombstones.has(keyHash) ? { outcome: 'unknownKey' } : take(record, nowMs);
  }

  return {
    admit(keyHash, nowMs) {
      if (tombstones.has(keyHash)) return Promise.resolve({ outcome: 'unknownKey' });
      const record = live(keyHash, nowMs);
      return record === null ? admitUnseen(keyHash, nowMs) : Promise.resolve(take(record, nowMs));
    },
    async refund(userId, windowStartSeconds) {
      const counter = windows.get(windowStartSeconds)?.get(userId);
      if (counter === undefined) return null;
      counter.used = Math.max(0, counter.used - 1);
      return quotaState(counter.limit, counter.used, windowStartSeconds);
    },
    async revoke(keyHash) {
      tombstones.add(keyHash);
      keys.delete(keyHash);
      if (tombstones.size > TOMBSTONES_MAX) dropFirst(tombstones);
    },
  };
}

function dropFirst(collection: Map<string, unknown> | Set<string>): void {
  for (const first of collection.keys()) {
    collection.delete(first);
    return;
  }
}
