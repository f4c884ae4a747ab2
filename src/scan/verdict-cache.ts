// Verdicts that are known already: by the SHA-256 of the content, for the engine that serves, within a bound of bytes.
import type { Verdict } from '../engine/verdict.js';

export type CompleteVerdict = Exclude<Verdict, { kind: 'incomplete' | 'failed' }>;

export interface VerdictCache {
  /** What the engine of that epoch said of the content; null when it wasn't asked, or too long ago. */
  get(sha256: string, epoch: number): CompleteVerdict | null;
  /** Only what an engine of that epoch has found, and never an incomplete verdict. */
  set(sha256: string, epoch: number, verdict: CompleteVerdict): void;
  readonly entries: number;
  readonly sizeBytes: number;
}

/**
 * What an entry takes: the digest as text (88), its place in the map (about 60, more while the map grows), and room for
 * the verdict of an infection. Measured: see the test.
 */
const ENTRY_BYTES = 256;

/**
 * Holds one epoch at a time. Verdicts depend on the content, the signatures, and settings that are fixed for the life
 * of a process (limits, the policy for encrypted archives): so the digest and the epoch say it all. `limitBytes` 0: none.
 *
 * What wasn't asked for in a while goes by generations: when the young one has its half of the room, it becomes the old
 * one, and the old one goes. (Deleting the oldest of one Map leaves holes at its front, which every look at the front
 * passes over: tens of thousands of steps on the thread that serves.)
 */
export function createVerdictCache({ limitBytes }: { readonly limitBytes: number }): VerdictCache {
  const generationLimit = Math.floor(limitBytes / ENTRY_BYTES / 2);
  let current = 0;
  let young = new Map<string, CompleteVerdict>();
  let old = new Map<string, CompleteVerdict>();

  /** False for an engine that was replaced: a scan that ends after the swap says nothing about the new one. */
  function turnTo(epoch: number): boolean {
    if (epoch > current) {
      current = epoch;
      young = new Map();
      old = new Map();
    }
    return epoch === current;
  }

  function keep(sha256: string, verdict: CompleteVerdict): void {
    // Each digest is in one generation, so that their sizes say how many there are.
    old.delete(sha256);
    young.set(sha256, verdict);
    if (young.size < generationLimit) return;
    old = young;
    young = new Map();
  }

  return {
    get(sha256, epoch) {
      if (!turnTo(epoch)) return null;
      const recent = young.get(sha256);
      if (recent !== undefined) return recent;
      const verdict = old.get(sha256);
      if (verdict === undefined) return null;
      keep(sha256, verdict);
      return verdict;
    },
    set(sha256, epoch, verdict) {
      if (generationLimit > 0 && turnTo(epoch)) keep(sha256, shared(verdict));
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
