// Look-ups of keys in Postgres: one per key at a time, a bounded number at once, and none that waits for ever.
import { Failure } from '../errors.js';
import type { KeyLoader, KeyRecord } from './admission.js';
import { within } from './within.js';

/** Look-ups at one time; the driver queues them over its ten connections. Whoever guesses keys fills these, not Postgres. */
const CONCURRENT_MAX = 64;
/** A Postgres that takes longer than this for one row is down for us. */
const TIMEOUT_MS = 5_000;
const BUSY_RETRY_SECONDS = 1;
const DOWN_RETRY_SECONDS = 2;

export interface Lookups {
  /** Null when no look-up that began after this call found the key; throws Failure('unavailable'). */
  find(keyHash: string): Promise<KeyRecord | null>;
}

export function createLookups(load: KeyLoader, timeoutMs: number = TIMEOUT_MS): Lookups {
  const running = new Map<string, Promise<KeyRecord | null>>();

  function start(keyHash: string): Promise<KeyRecord | null> {
    if (running.size >= CONCURRENT_MAX) {
      throw new Failure('unavailable', 'Too many key look-ups at once', BUSY_RETRY_SECONDS);
    }
    const loading = load(keyHash);
    const lookup = answer(loading, timeoutMs);
    running.set(keyHash, lookup);
    // Not freed by the timeout: a Postgres that hangs must not be given more and more to do.
    const free = () => running.delete(keyHash);
    loading.then(free, free);
    return lookup;
  }

  return {
    async find(keyHash) {
      const earlier = running.get(keyHash);
      if (earlier === undefined) return await start(keyHash);
      const found = await earlier;
      // It may have looked before the key was made, so its refusal is not an answer to this call; the next one's is.
      return found ?? (await (running.get(keyHash) ?? start(keyHash)));
    },
  };
}

async function answer(loading: Promise<KeyRecord | null>, timeoutMs: number): Promise<KeyRecord | null> {
  try {
    return await within(loading, timeoutMs);
  } catch (error) {
    const failure = new Failure('unavailable', 'The account store is not reachable', DOWN_RETRY_SECONDS);
    failure.cause = error;
    throw failure;
  }
}
