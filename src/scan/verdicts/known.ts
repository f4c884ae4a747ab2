// Verdicts that need no scan, of this process and of others with the same engine, which share them through Redis; and whether it was this account that has scanned. Those
// of this process are kept within a bound of bytes, by a SHA-256 that stands for the content.
import { hash } from 'node:crypto';
import { z } from 'zod';
import type { Engine } from '../../engine/engine.js';
import { CLEAN, type CompleteVerdict } from '../../engine/verdict.js';
import { within } from '../../waiting/within.js';
import { parseJson } from '../../wire-text.js';

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
const ownDigest = (account: string, sha256: string): string => hash('sha256', `${account} ${sha256}`);

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

/** What an engine has said of a content, and how long it took. */
export interface LookedAt {
  readonly verdict: CompleteVerdict;
  readonly durationMs: number;
  /** What it has said the content is; null: it can't say. */
  readonly detectedType: string | null;
}

export type VerdictCache = ReturnType<typeof createVerdictCache>;

/**
 * Half of what a content takes that one account has scanned: the digest as text (88), its place in the map (about 60, more while the map
 * grows), the verdict and the account. A further account takes less. Measured: see the test.
 */
const ENTRY_BYTES = 128;

/** Of one content, besides the first: what everybody sends must not take the room of all else. */
const ACCOUNTS_MAX = 1_000;

/** A verdict, and whose scans it is of. */
class Remembered implements LookedAt {
  readonly verdict: CompleteVerdict;
  readonly durationMs: number;
  readonly detectedType: string | null;
  readonly #first: string;
  #others: Set<string> | null = null;

  constructor({ verdict, durationMs, detectedType }: LookedAt, account: string) {
    this.verdict = shared(verdict);
    this.durationMs = durationMs;
    this.detectedType = detectedType;
    this.#first = account;
  }

  /** The account has scanned it. */
  isOf(account: string): boolean {
    return account === this.#first || this.#others?.has(account) === true;
  }

  /** It is the account's own from here on. Of very many accounts the others must ask again. */
  add(account: string): void {
    if (this.#others === null || this.#others.size === ACCOUNTS_MAX) this.#others = new Set();
    this.#others.add(account);
  }

  /** Of this content and its accounts. */
  get entries(): number {
    return 2 + (this.#others?.size ?? 0);
  }
}

/**
 * Contents of one epoch. Old ones go by generations. When the young one has its half of the room, it becomes the old one,
 * and the old one goes. One Map would not do: deleting its oldest entries leaves holes at its front. Every look at the front
 * passes over them, which takes tens of thousands of steps on the thread that serves.
 */
class Generations {
  readonly #limit: number;
  #young = new Map<string, Remembered>();
  #old = new Map<string, Remembered>();
  #youngEntries = 0;
  #oldEntries = 0;

  /** `limit`: of entries in one generation. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get entries(): number {
    return this.#youngEntries + this.#oldEntries;
  }

  /** It is young from then on. */
  find(sha256: string): Remembered | null {
    const recent = this.#young.get(sha256);
    if (recent !== undefined) return recent;
    const found = this.#old.get(sha256);
    if (found === undefined) return null;
    // Each content is in one generation, so that their sizes say how many there are.
    this.#old.delete(sha256);
    this.#oldEntries -= found.entries;
    this.keep(sha256, found);
    return found;
  }

  keep(sha256: string, found: Remembered): void {
    this.#young.set(sha256, found);
    this.#youngEntries += found.entries;
    this.#turnOver();
  }

  /** To one that was found. */
  addAccount(sha256: string, found: Remembered, account: string): void {
    const before = found.entries;
    found.add(account);
    if (this.#young.has(sha256)) this.#youngEntries += found.entries - before;
    else this.#oldEntries += found.entries - before;
    this.#turnOver();
  }

  #turnOver(): void {
    if (this.#youngEntries < this.#limit) return;
    this.#old = this.#young;
    this.#oldEntries = this.#youngEntries;
    this.#young = new Map();
    this.#youngEntries = 0;
  }
}

/**
 * Holds one epoch at a time. Digest and epoch are enough as a key: other settings that a verdict depends on (limits, the
 * policy for encrypted archives) are fixed for the life of a process.
 */
export function createVerdictCache({ limitBytes }: { readonly limitBytes: number }) {
  const generationLimit = Math.floor(limitBytes / ENTRY_BYTES / 2);
  let current = 0;
  let contents = new Generations(generationLimit);

  /** False for an engine that was replaced: a scan that ends after the swap says nothing about the new one. */
  function turnTo(epoch: number): boolean {
    if (epoch > current) {
      current = epoch;
      contents = new Generations(generationLimit);
    }
    return epoch === current;
  }

  return {
    /** What the engine of that epoch said of the content; null when it wasn't asked, or too long ago. */
    get(sha256: string, epoch: number): Remembered | null {
      return turnTo(epoch) ? contents.find(sha256) : null;
    },
    /** Only what an engine of that epoch has found for the account, and never an incomplete verdict. */
    set(sha256: string, epoch: number, account: string, found: LookedAt): void {
      if (!turnTo(epoch)) return;
      const known = contents.find(sha256);
      if (known === null) contents.keep(sha256, new Remembered(found, account));
      else if (!known.isOf(account)) contents.addAccount(sha256, known, account);
    },
    /** Contents, and once more each account that has scanned one of them. */
    get entries(): number {
      return contents.entries;
    },
    get sizeBytes(): number {
      return contents.entries * ENTRY_BYTES;
    },
  };
}

const CLEAN_ENCRYPTED: CompleteVerdict = Object.freeze({ kind: 'clean', encrypted: true });

/** Most verdicts are one of two: they are kept once. */
function shared(verdict: CompleteVerdict): CompleteVerdict {
  if (verdict.kind === 'infected' || verdict.truncated) return verdict;
  return verdict.encrypted ? CLEAN_ENCRYPTED : CLEAN;
}
