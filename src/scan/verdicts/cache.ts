// Verdicts that are known already: by a SHA-256 that stands for the content, for the engine that serves, with the accounts that have scanned it, within a bound of bytes.
import { CLEAN, type CompleteVerdict } from '../../engine/verdict.js';

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
  #others: Set<string> | null;

  constructor({ verdict, durationMs, detectedType }: LookedAt, account: string) {
    this.verdict = shared(verdict);
    this.durationMs = durationMs;
    this.detectedType = detectedType;
    this.#first = account;
    this.#others = null;
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
 * Holds one epoch at a time. Digest and epoch are enough as a key: other settings that a verdict depends on (limits, the
 * policy for encrypted archives) are fixed for the life of a process. `limitBytes` 0: none.
 *
 * Old entries go by generations. When the young one has its half of the room, it becomes the old one, and the old one
 * goes. One Map would not do: deleting its oldest entries leaves holes at its front. Every look at the front passes over
 * them, which takes tens of thousands of steps on the thread that serves.
 */
export function createVerdictCache({ limitBytes }: { readonly limitBytes: number }) {
  const generationLimit = Math.floor(limitBytes / ENTRY_BYTES / 2);
  let current = 0;
  let young = new Map<string, Remembered>();
  let old = new Map<string, Remembered>();
  let youngEntries = 0;
  let oldEntries = 0;

  /** False for an engine that was replaced: a scan that ends after the swap says nothing about the new one. */
  function turnTo(epoch: number): boolean {
    if (epoch > current) {
      current = epoch;
      young = new Map();
      old = new Map();
      youngEntries = 0;
      oldEntries = 0;
    }
    return epoch === current;
  }

  function keep(sha256: string, found: Remembered): void {
    young.set(sha256, found);
    youngEntries += found.entries;
    turnOver();
  }

  function turnOver(): void {
    if (youngEntries < generationLimit) return;
    old = young;
    oldEntries = youngEntries;
    young = new Map();
    youngEntries = 0;
  }

  function find(sha256: string): Remembered | null {
    const recent = young.get(sha256);
    if (recent !== undefined) return recent;
    const found = old.get(sha256);
    if (found === undefined) return null;
    // Each content is in one generation, so that their sizes say how many there are.
    old.delete(sha256);
    oldEntries -= found.entries;
    keep(sha256, found);
    return found;
  }

  return {
    /** What the engine of that epoch said of the content; null when it wasn't asked, or too long ago. */
    get(sha256: string, epoch: number): Remembered | null {
      return generationLimit > 0 && turnTo(epoch) ? find(sha256) : null;
    },
    /** Only what an engine of that epoch has found for the account, and never an incomplete verdict. */
    set(sha256: string, epoch: number, account: string, found: LookedAt): void {
      if (generationLimit === 0 || !turnTo(epoch)) return;
      const known = find(sha256);
      if (known === null) keep(sha256, new Remembered(found, account));
      else if (!known.isOf(account)) {
        const isYoung = young.has(sha256);
        const before = known.entries;
        known.add(account);
        if (isYoung) youngEntries += known.entries - before;
        else oldEntries += known.entries - before;
        turnOver();
      }
    },
    /** Contents, and once more each account that has scanned one of them. */
    get entries(): number {
      return youngEntries + oldEntries;
    },
    get sizeBytes(): number {
      return (youngEntries + oldEntries) * ENTRY_BYTES;
    },
  };
}

const CLEAN_ENCRYPTED: CompleteVerdict = Object.freeze({ kind: 'clean', encrypted: true });

/** Most verdicts are one of two: they are kept once. */
function shared(verdict: CompleteVerdict): CompleteVerdict {
  if (verdict.kind === 'infected' || verdict.truncated) return verdict;
  return verdict.encrypted ? CLEAN_ENCRYPTED : CLEAN;
}
