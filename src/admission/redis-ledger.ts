// The ledger in Redis or Redis Cluster: one record per user, one round trip per step.
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { RedisCommands } from '../store/redis/redis.js';
import { inBatches } from '../waiting/batches.js';
import type { QuotaHour } from './admission.js';
import { type Ledger, RECORD_SECONDS } from './ledger.js';
import {
  beginScript,
  fillScript,
  giveBackScript,
  raiseScript,
  revokeScript,
  setLimitScript,
  takeScript,
} from './redis-scripts.js';
import { createTakeBatcher, hourOf } from './take-batcher.js';

export interface RedisLedgerOptions {
  /** Added to the clock of Redis, in seconds; for tests that hold the hour. */
  readonly clockOffsetSeconds?: () => number;
}

/** Owners are read only while Postgres is away; nodes say them again every hour of use, so they outlive the user's record. */
const OWNER_SECONDS = RECORD_SECONDS + 2 * 3600;

const giveBackReply = z.union([z.tuple([]), z.tuple([z.int(), z.int(), z.int()])]);
const ownerReply = z.object({ userId: z.string(), keyId: z.string() });

export function createRedisLedger(redis: RedisCommands, options: RedisLedgerOptions = {}): Ledger {
  const offset = options.clockOffsetSeconds ?? (() => 0);
  const takes = createTakeBatcher(
    (userId, keyHash, units) => redis.run(takeScript, recordOf(userId), keyHash ?? '', offset(), units),
    redis.together,
  );
  return {
    take: takes.take,
    look: async (userId) => hourOf(await redis.run(takeScript, recordOf(userId), '', offset(), 0)),
    async giveBack(userId, windowStartSeconds) {
      const reply = giveBackReply.parse(await redis.run(giveBackScript, recordOf(userId), windowStartSeconds));
      if (reply.length === 0) return null;
      const [limit, counted, direct] = reply;
      return { limit, counted, direct, windowStartSeconds };
    },
    async begin(userId) {
      return z.string().parse(await redis.run(beginScript, recordOf(userId), randomUUID()));
    },
    async fill(userId, token, { key, hourlyLimit, hours }) {
      const facts = [token, key?.hash ?? '', key?.keyId ?? '', hourlyLimit, ...hours.flatMap(fieldsOf)];
      return (await redis.run(fillScript, recordOf(userId), ...facts)) === 1;
    },
    async revoke(userId, keyHash) {
      await redis.run(revokeScript, recordOf(userId), keyHash, randomUUID());
    },
    async setLimit(userId, hourlyLimit) {
      await redis.run(setLimitScript, recordOf(userId), hourlyLimit, randomUUID());
    },
    async raise(hours) {
      const step = (hour: QuotaHour) => redis.run(raiseScript, recordOf(hour.userId), ...fieldsOf(hour));
      await inBatches(hours, step, redis.together);
    },
    async ownerOf(keyHash) {
      const text = await redis.get(ownerKey(keyHash));
      return text === null ? null : ownerReply.parse(JSON.parse(text));
    },
    async rememberOwner(keyHash, { userId, keyId }) {
      await redis.set(ownerKey(keyHash), JSON.stringify({ userId, keyId }), OWNER_SECONDS);
    },
  };
}

/** The braces make Redis Cluster place it by the user alone. */
function recordOf(userId: string): string {
  return `sluice:{u:${userId}}`;
}

function ownerKey(keyHash: string): string {
  return `sluice:k:${keyHash}`;
}

function fieldsOf({ windowStartSeconds, mirrored, direct }: QuotaHour): number[] {
  return [windowStartSeconds, mirrored, direct];
}
