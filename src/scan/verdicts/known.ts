// Verdicts that need no scan, of this process and of others with the same engine, which share them through Redis; and whether it was this account that has scanned.
import { hash } from 'node:crypto';
import { z } from 'zod';
import type { Engine } from '../../engine/engine.js';
import { within } from '../../waiting/within.js';
import { parseJson } from '../../wire-text.js';
import type { LookedAt, VerdictCache } from './cache.js';

/** Of an engine, what its verdicts are remembered by. */
type Looking = Pick<Engine, 'epoch' | 'identity'>;

export type KnownVerdicts = ReturnType<typeof createKnownVerdicts>;

export interface Known extends LookedAt {
  /** The account has scanned this content before. The client must not learn what others have scanned. */
  readonly isOwn: boolean;
}

interface Described {
  readonly sizeBytes: number;
  readonly sha256: string;
}

interface KnownVerdictsOptions {
  readonly cache: VerdictCache;
  /** Null: verdicts are not shared with other processes. */
  readonly shared: SharedVerdicts | null;
  /** `account`: nothing that others have scanned is used, not even without saying so. */
  readonly scope: 'shared' | 'account';
}

/**
 * Nodes share a verdict under two digests: that of the content, for everybody, and one of the content and the account, which says
 * that this account has scanned it. With the scope `account` there is the second one alone.
 */
export function createKnownVerdicts({ cache, shared, scope }: KnownVerdictsOptions) {
  function asksNodes({ sizeBytes }: Described, { identity }: Looking): boolean {
    return shared !== null && identity !== null && sizeBytes >= SHARED_FROM_BYTES;
  }

  /** What others have found is this account's own from here on. */
  function adopt(found: LookedAt, content: Described, engine: Looking, account: string): Known {
    cache.set(content.sha256, engine.epoch, account, found);
    if (asksNodes(content, engine)) tell(ownDigest(account, content.sha256), engine, found);
    return known(found, false);
  }

  function tell(digest: string, { identity }: Looking, found: LookedAt): void {
    if (identity !== null) shared?.set(digest, identity, found);
  }

  /** The account may have scanned the content on another node. */
  async function askNodes(content: Described, engine: Looking, account: string): Promise<Known | null> {
    const { identity } = engine;
    if (shared === null || identity === null) return null;
    const here = scope === 'shared' ? cache.get(content.sha256, engine.epoch) : null;
    const [own, anybody] = await Promise.all([
      shared.get(ownDigest(account, content.sha256), identity),
      here === null && scope === 'shared' ? shared.get(content.sha256, identity) : here,
    ]);
    if (own === null) return anybody === null ? null : adopt(anybody, content, engine, account);
    cache.set(content.sha256, engine.epoch, account, own);
    return known(own, true);
  }

  return {
    /** Other nodes have verdicts as well. */
    isShared: shared !== null,
    /** What this very engine has said of the content in this process; null: `elsewhere` must be asked, or it must be scanned. */
    here(content: Described, engine: Looking, account: string): Known | null {
      const found = cache.get(content.sha256, engine.epoch);
      if (found === null) return null;
      if (found.isOf(account)) return known(found, true);
      if (scope === 'account' || asksNodes(content, engine)) return null;
      return adopt(found, content, engine, account);
    },
    /** What its like on another node has said. Null, or a promise for it, which never rejects: it must be scanned. */
    elsewhere(content: Described, engine: Looking, account: string): Promise<Known | null> | null {
      return asksNodes(content, engine) ? askNodes(content, engine, account) : null;
    },
    /** `engine`: the one that has looked; `account`: for whom. */
    keep(content: Described, engine: Looking, account: string, found: LookedAt): void {
      cache.set(content.sha256, engine.epoch, account, found);
      if (shared === null || !asksNodes(content, engine)) return;
      if (scope === 'shared') tell(content.sha256, engine, found);
      tell(ownDigest(account, content.sha256), engine, found);
    },
  };
}

function known({ verdict, durationMs, detectedType }: LookedAt, isOwn: boolean): Known {
  return { verdict, durationMs, detectedType, isOwn };
}

/** Of 64 hexadecimal characters, as that of a content. It shows nothing of the account or the content to a reader who doesn't know both. */
function ownDigest(account: string, sha256: string): string {
  return hash('sha256', `${account} ${sha256}`);
}

/** Verdicts that processes share through Redis: each in a place that its digest gives it, so that they never take more than their room. */
export type SharedVerdicts = ReturnType<typeof createSharedVerdicts>;

/** What it needs of Redis. */
interface SharedStore {
  get(key: string): Promise<string | null>;
  set(key: string, value: string, seconds: number): Promise<void>;
}

interface SharedVerdictsOptions {
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
export function createSharedVerdicts(redis: SharedStore, { limitBytes, readBy }: SharedVerdictsOptions) {
  const places = Math.max(1, Math.floor(limitBytes / PLACE_BYTES));
  /** The first 48 bits are uniform, and more than there are places by far. */
  const placeOf = (digest: string): string => `sluice:v:${Number.parseInt(digest.slice(0, 12), 16) % places}`;
  return {
    /** What an engine of that identity said of the content on any node; null when nobody knows in time. Never rejects. */
    async get(digest: string, identity: string): Promise<LookedAt | null> {
      const text = await within(redis.get(placeOf(digest)), PATIENCE_MS).catch(() => null);
      if (text === null) return null;
      const entry = storedEntry.safeParse(parseJson(text));
      if (!entry.success) return null;
      const [of, by, verdict, durationMs, detectedType] = entry.data;
      return of === digest && by === `${identity} ${readBy}` ? { verdict, durationMs, detectedType } : null;
    },
    /** Returns at once; what can't be stored isn't. */
    set(digest: string, identity: string, { verdict, durationMs, detectedType }: LookedAt): void {
      const entry = JSON.stringify([digest, `${identity} ${readBy}`, verdict, durationMs, detectedType]);
      redis.set(placeOf(digest), entry, KEPT_SECONDS).catch(() => undefined);
    },
  };
}
