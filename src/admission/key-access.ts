// What a key may ask for beside scans: a live one, and so many reads in a second.

import { z } from 'zod';
import { Failure } from '../errors.js';
import type { AuthenticateKey } from '../http/caller.js';
import { READS_PER_SECOND } from '../limits.js';
import { script } from '../store/redis/place.js';
import type { RedisCommands } from '../store/redis/redis.js';
import { StoreAway } from '../store/store-error.js';
import { createRate } from '../waiting/limiter.js';
import { liveKey } from './access.js';
import { REMEMBERED_MAX } from './admission.js';
import type { Lookups } from './lookups.js';

export function createKeyAccess(find: Lookups['find'], rate: ReadRate): AuthenticateKey {
  return async ({ headers }) => {
    const key = await liveKey(headers.get('x-api-key'), find, 'read');
    const waitSeconds = await rate(key.userId);
    if (waitSeconds > 0) throw new Failure('tooManyRequests', String(READS_PER_SECOND), waitSeconds);
    return key;
  };
}

/** Counts one question of an account. 0: it may be asked; otherwise it didn't count, and the whole seconds until one may. */
export type ReadRate = (userId: string) => number | Promise<number>;

const EVERY_MS = 1000 / READS_PER_SECOND;

const now = performance.now.bind(performance);

/** `redis` null: there is none. `clock`: milliseconds that only grow. */
export function createReadRate(redis: Pick<RedisCommands, 'run'> | null, clock = now): ReadRate {
  const here = createRate({ burst: READS_PER_SECOND, everyMs: EVERY_MS, subjectsMax: REMEMBERED_MAX }, clock);
  if (redis === null) return (userId) => here.take(userId);
  return async (userId) => {
    try {
      return z.int().parse(await redis.run(rateScript, `sluice:r:{u:${userId}}`, EVERY_MS, READS_PER_SECOND));
    } catch (error) {
      if (!(error instanceof StoreAway)) throw error;
      return here.take(userId);
    }
  };
}

/** As waiting/limiter.ts has it in this process, by Redis's clock. ARGV: milliseconds for each, and how many at once. */
const rateScript = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local next = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0)) + ARGV[1]
local wait = next - now - ARGV[1] * ARGV[2]
if wait > 0 then return math.ceil(wait / 1000) end
redis.call('SET', KEYS[1], next, 'PX', math.ceil(next - now))
return 0
`);
