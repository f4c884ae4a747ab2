// Verdicts that processes share through Redis: each in a place that its digest gives it, so that they never take more than their room.
import { z } from 'zod';
import { within } from '../../waiting/within.js';
import { parseJson } from '../../wire-text.js';
import type { LookedAt } from './cache.js';

export interface SharedVerdicts {
  /** What an engine of that identity said of the content on any node; null when nobody knows in time. Never rejects. */
  get(digest: string, identity: string): Promise<LookedAt | null>;
  /** Returns at once; what can't be stored isn't. */
  set(digest: string, identity: string, found: LookedAt): void;
}

/** What it needs of Redis. */
export interface SharedStore {
  get(key: string): Promise<string | null>;
  set(key: string, value: string, seconds: number): Promise<void>;
}

export interface SharedVerdictsOptions {
  /** Of Redis's memory. */
  readonly limitBytes: number;
  /** What verdicts depend on besides the engine: the version that read its answer, and the policy by which it did. */
  readonly readBy: string;
}

/** A scan of this size takes longer than the question does. */
export const SHARED_FROM_BYTES = 32 * 1024;
/** What Redis takes for a place, with its key and its time to live. Measured: see the test. */
const PLACE_BYTES = 512;
/** Signatures change at least daily. */
const KEPT_SECONDS = 86_400;
/** Longer than that, scanning is the faster answer. */
const PATIENCE_MS = 50;

const storedVerdict = z.union([
  z.strictObject({ kind: z.literal('clean'), encrypted: z.boolean(), truncated: z.literal(true).exactOptional() }),
  z.strictObject({ kind: z.literal('infected'), virusName: z.string().min(1) }),
]);
/** It goes into a header as it is. */
const storedType = z
  .string()
  .regex(/^\w{1,64}$/)
  .nullable();
/** Digest, engine, verdict, the milliseconds that it took, and what the content is. */
const storedEntry = z.tuple([z.string(), z.string(), storedVerdict, z.number().nonnegative(), storedType]);

/**
 * A new entry takes the place of the one that had it. The entry says in full of which content and by which engine it is: another
 * content with the same place, an older engine or other settings are no answer.
 */
export function createSharedVerdicts(
  redis: SharedStore,
  { limitBytes, readBy }: SharedVerdictsOptions,
): SharedVerdicts {
  const places = Math.max(1, Math.floor(limitBytes / PLACE_BYTES));
  /** The first 48 bits are uniform, and more than there are places by far. */
  const placeOf = (digest: string): string => `sluice:v:${Number.parseInt(digest.slice(0, 12), 16) % places}`;
  return {
    async get(digest, identity) {
      const text = await within(redis.get(placeOf(digest)), PATIENCE_MS).catch(() => null);
      if (text === null) return null;
      const entry = storedEntry.safeParse(parseJson(text));
      if (!entry.success) return null;
      const [of, by, verdict, durationMs, detectedType] = entry.data;
      return of === digest && by === `${identity} ${readBy}` ? { verdict, durationMs, detectedType } : null;
    },
    set(digest, identity, { verdict, durationMs, detectedType }) {
      const entry = JSON.stringify([digest, `${identity} ${readBy}`, verdict, durationMs, detectedType]);
      redis.set(placeOf(digest), entry, KEPT_SECONDS).catch(() => undefined);
    },
  };
}
