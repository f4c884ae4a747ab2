// Verdicts that need no scan: those this process has given, and those that other processes with the same engine have.
import type { ServingEngine } from '../engine/build.js';
import { SHARED_FROM_BYTES, type SharedVerdicts } from './shared-verdicts.js';
import type { CompleteVerdict, VerdictCache } from './verdict-cache.js';

export interface KnownVerdicts {
  /** What this very engine, or its like on another node, has said of the content; null: it must be scanned. Never rejects. */
  find(content: Described, engine: ServingEngine): CompleteVerdict | null | Promise<CompleteVerdict | null>;
  /** `engine`: the one that has looked. */
  keep(content: Described, engine: ServingEngine, verdict: CompleteVerdict): void;
}

export interface Described {
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** `shared` null: other processes are neither asked nor told. */
export function createKnownVerdicts(cache: VerdictCache, shared: SharedVerdicts | null): KnownVerdicts {
  async function askOthers({ sha256 }: Described, identity: string, epoch: number): Promise<CompleteVerdict | null> {
    const verdict = (await shared?.get(sha256, identity)) ?? null;
    if (verdict !== null) cache.set(sha256, epoch, verdict);
    return verdict;
  }

  return {
    find(content, { epoch, identity }) {
      const verdict = cache.get(content.sha256, epoch);
      if (verdict !== null || shared === null || identity === null) return verdict;
      return content.sizeBytes < SHARED_FROM_BYTES ? null : askOthers(content, identity, epoch);
    },
    keep({ sizeBytes, sha256 }, { epoch, identity }, verdict) {
      cache.set(sha256, epoch, verdict);
      if (identity !== null && sizeBytes >= SHARED_FROM_BYTES) shared?.set(sha256, identity, verdict);
    },
  };
}
