// The ledger in Redis or Redis Cluster: one record per user, one round trip per step.
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { RedisCommands } from '../store/redis/redis.js';
import { inBatches } from '../waiting/limiter.js';
import type { QuotaHour } from './admission.js';
import { type Count, type Ledger, type LedgerAnswer, type LedgerKey, RECORD_SECONDS, type Tally } from './ledger.js';
import {
  beginScript,
  fillScript,
  giveBackScript,
  raiseScript,
  revokeScript,
  setKeyScript,
  setLimitScript,
  takeScript,
} from './redis-scripts.js';

export interface RedisLedgerOptions {
  /** Added to the clock of Redis, in seconds; for tests that hold the hour. */
  readonly clockOffsetSeconds?: () => number;
}

/** Owners are read only while Postgres is away; nodes say them again every hour of use, so they outlive the user's record. */
const OWNER_SECONDS = RECORD_SECONDS + 2 * 3600;

const giveBackReply = z.union([
  z.tuple([]),
  z.tuple([z.int(), z.int(), z.int(), z.int()]),
  z.tuple([z.int(), z.int(), z.int(), z.int(), z.int(), z.int(), z.int()]),
]);
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
    async giveBack(userId, windowStartSeconds, keyId = '') {
      const answer = await redis.run(giveBackScript, recordOf(userId), windowStartSeconds, keyId);
      const reply = giveBackReply.parse(answer);
      if (reply.length === 0) return null;
      const [limit, counted, returned, direct] = reply;
      const left = { limit, counted, returned, direct, windowStartSeconds };
      if (reply.length === 4) return left;
      return { ...left, own: { counted: reply[4], returned: reply[5], direct: reply[6] } };
    },
    async begin(userId) {
      return z.string().parse(await redis.run(beginScript, recordOf(userId), randomUUID()));
    },
    async fill(userId, token, { key, hourlyLimit, hours }) {
      const named = key === null ? ['', ''] : [key.hash, keyText(key)];
      const facts = [token, ...named, hourlyLimit, ...hours.flatMap(fieldsOf)];
      return (await redis.run(fillScript, recordOf(userId), ...facts)) === 1;
    },
    async revoke(userId, keyHash) {
      await redis.run(revokeScript, recordOf(userId), keyHash, randomUUID());
    },
    async setLimit(userId, hourlyLimit) {
      await redis.run(setLimitScript, recordOf(userId), hourlyLimit, randomUUID());
    },
    async setKey(userId, key) {
      await redis.run(setKeyScript, recordOf(userId), key.hash, keyText(key), randomUUID());
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

/** What the record has of a live key. */
function keyText({ keyId, rules }: LedgerKey): string {
  return rules === undefined ? keyId : `${keyId} ${rules.text}`;
}

function fieldsOf(hour: QuotaHour): (string | number)[] {
  const { keyId, windowStartSeconds, mirrored, returned, direct, directReturned } = hour;
  const name = keyId === undefined ? windowStartSeconds : `${windowStartSeconds}:${keyId}`;
  return [name, mirrored, returned, direct, directReturned];
}

/** Takes the units that one user asks for in one turn of the event loop in one step. Half of the cost of a step is the same for any number. */
export interface TakeBatcher {
  /** Takes one unit; rejects with what the step rejects with. */
  take(userId: string, keyHash: string | null): Promise<LedgerAnswer>;
}

/** Runs the script that takes `units`, and returns its reply. */
export type TakeStep = (userId: string, keyHash: string | null, units: number) => Promise<unknown>;

interface Waiting {
  readonly resolve: (answer: LedgerAnswer) => void;
  readonly reject: (error: unknown) => void;
}

interface Group {
  readonly userId: string;
  readonly keyHash: string | null;
  readonly waiting: Waiting[];
}

const refusedReply = z.union([z.literal(2), z.literal(3)]);
const boundedReply = z.tuple([z.union([z.literal(4), z.literal(5)]), z.string()]);
const countedReply = z.tuple([z.int().min(0), z.int(), z.int(), z.int(), z.int(), z.int(), z.int()]);
/** What follows it for a key with rules. */
const ownReply = z.tuple([z.string(), z.int(), z.int(), z.int(), z.int()]);
const COUNTED_LENGTH = 7;

/** `together` lets the steps that are begun in it travel as one. */
export function createTakeBatcher(step: TakeStep, together: (send: () => void) => void): TakeBatcher {
  let groups = new Map<string, Group>();

  function sendAll(): void {
    const sent = [...groups.values()];
    groups = new Map();
    together(() => sent.forEach(send));
  }

  function send({ userId, keyHash, waiting }: Group): void {
    step(userId, keyHash, waiting.length)
      .then((reply) => answersOf(reply, waiting.length))
      .then(
        (answerOf) => {
          for (const [index, { resolve }] of waiting.entries()) resolve(answerOf(index));
        },
        (error: unknown) => {
          for (const { reject } of waiting) reject(error);
        },
      );
  }

  return {
    take(userId, keyHash) {
      return new Promise((resolve, reject) => {
        if (groups.size === 0) setImmediate(sendAll);
        const name = `${userId} ${keyHash ?? ''}`;
        const group = groups.get(name);
        if (group === undefined) groups.set(name, { userId, keyHash, waiting: [{ resolve, reject }] });
        else group.waiting.push({ resolve, reject });
      });
    },
  };
}

/** The hour as the script sees it when it is asked for no unit; null: it doesn't know the user. */
function hourOf(reply: unknown): Omit<Count, 'kind'> | null {
  if (!Array.isArray(reply)) return null;
  const [, limit, counted, returned, direct, windowStartSeconds, nowSeconds] = countedReply.parse(reply);
  return { limit, counted, returned, direct, windowStartSeconds, nowSeconds };
}

/** The first request is served first, and each one sees the count after its own unit. */
function answersOf(reply: unknown, asked: number): (index: number) => LedgerAnswer {
  if (!Array.isArray(reply)) {
    const kind = refusedReply.parse(reply) === 3 ? 'revoked' : 'missing';
    return () => ({ kind });
  }
  if (reply.length === 2) {
    const [refusal, rules] = boundedReply.parse(reply);
    return () => ({ kind: refusal === 4 ? 'expired' : 'unscoped', rules });
  }
  const counts = reply.length === COUNTED_LENGTH ? reply : reply.slice(0, COUNTED_LENGTH);
  const [taken, limit, countedAfter, returned, direct, windowStartSeconds, nowSeconds] = countedReply.parse(counts);
  if (taken > asked) throw new Error(`${taken} units were taken, ${asked} asked for`);
  const after = (index: number, count: number): number => (index < taken ? count - taken + index + 1 : count);
  const countOf = (index: number): Count => {
    const kind = index < taken ? 'taken' : 'exhausted';
    return { kind, limit, counted: after(index, countedAfter), returned, direct, windowStartSeconds, nowSeconds };
  };
  if (counts === reply) return countOf;
  const [rules, ...own] = ownReply.parse(reply.slice(COUNTED_LENGTH));
  return (index) => {
    const tally = tallyOf(own);
    return { ...countOf(index), rules, own: tally && { ...tally, counted: after(index, tally.counted) } };
  };
}

function tallyOf([limit, counted, returned, direct]: [number, number, number, number]): Tally | undefined {
  return limit === -1 ? undefined : { limit, counted, returned, direct };
}
