// Verdicts that are known already: by a SHA-256 that stands for the content, for the engine that serves, within a bound of bytes.
import type { Verdict } from '../../engine/verdict.js';

export type CompleteVerdict = Exclude<Verdict, { kind: 'incomplete' | 'failed' }>;

/** What an engine has said of a content, and how long it took. */
export interface LookedAt {
  readonly verdict: CompleteVerdict;
  readonly durationMs: number;
}

export interface VerdictCache {
  /** What the engine of that epoch said of the content; null when it wasn't asked, or too long ago. */
  get(digest: string, epoch: number): LookedAt | null;
  /** Only what an engine of that epoch has found, and never an incomplete verdict. */
  set(digest: string, epoch: number, found: LookedAt): void;
  readonly entries: number;
  readonly sizeBytes: number;
}

/**
 * What an entry takes: the digest as text (88), its place in the map (about 60, more while the map grows), and room for
 * the verdict of an infection. Measured: see the test.
 */
const ENTRY_BYTES = 256;

/**
 * Holds one epoch at a time. Digest and epoch are enough as a key: other settings that a verdict depends on (limits, the
 * policy for encrypted archives) are fixed for the life of a process. `limitBytes` 0: none.
 *
 * Old entries go by generations. When the young one has its half of the room, it becomes the old one, and the old one
 * goes. One Map would not do: deleting its oldest entries leaves holes at its front. Every look at the front passes over
 * them, which takes tens of thousands of steps on the thread that serves.
 */
export function createVerdictCache({ limitBytes }: { readonly limitBytes: number }): VerdictCache {
  const generationLimit = Math.floor(limitBytes / ENTRY_BYTES / 2);
  let current = 0;
  let young = new Map<string, LookedAt>();
  let old = new Map<string, LookedAt>();

  /** False for an engine that was replaced: a scan that ends after the swap says nothing about the new one. */
  function turnTo(epoch: number): boolean {
    if (epoch > current) {
      current = epoch;
      young = new Map();
      old = new Map();
    }
    return epoch === current;
  }

  function keep(digest: string, found: LookedAt): void {
    // Each digest is in one generation, so that their sizes say how many there are.
    old.delete(digest);
    young.set(digest, found);
    if (young.size < generationLimit) return;
    old = young;
    young = new Map();
  }

  return {
    get(digest, epoch) {
      if (!turnTo(epoch)) return null;
      const recent = young.get(digest);
      if (recent !== undefined) return recent;
      const found = old.get(digest);
      if (found === undefined) return null;
      keep(digest, found);
      return found;
    },
    set(digest, epoch, { verdict, durationMs }) {
      if (generationLimit > 0 && turnTo(epoch)) keep(digest, { verdict: shared(verdict), durationMs });
    },
    get entries() {
      return young.size + old.size;
    },
    get sizeBytes() {
      return (young.size + old.size) * ENTRY_BYTES;
    },
  };
}

const CLEAN: CompleteVerdict = Object.freeze({ kind: 'clean', encrypted: false });
const CLEAN_ENCRYPTED: CompleteVerdict = Object.freeze({ kind: 'clean', encrypted: true });

/** Most verdicts are one of two: they are kept once. */
function shared(verdict: CompleteVerdict): CompleteVerdict {
  if (verdict.kind === 'infected') return verdict;
  return verdict.encrypted ? CLEAN_ENCRYPTED : CLEAN;
}
