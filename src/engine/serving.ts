// What serves in this process: as the native engine does, it belongs to the process, and whoever scans asks here which it is.
import type { RuleSet } from './task.js';

export interface Serving {
  /** Higher than that of all before it, whichever engine they were. */
  readonly epoch: number;
  /** The epoch of the ClamAV engine; null: the rules stand in for it. */
  readonly nativeEpoch: number | null;
  /** Null: no YARA rules. */
  readonly rules: RuleSet | null;
}

/** Engines of which it is known what they were: with one reload a second, those of ten minutes, the longest a scan can take. */
export const ENGINES_KEPT = 600;

let current: Serving | null = null;
const native = new Map<number, Serving>();

/** Returns the epoch. Must be called in the same breath in which a ClamAV engine begins to serve. */
export function beginServing(nativeEpoch: number | null, rules: RuleSet | null): number {
  const last = current?.epoch ?? 0;
  const epoch = Math.max(last + 1, nativeEpoch ?? 0);
  current = { epoch, nativeEpoch, rules };
  if (nativeEpoch !== null) {
    native.set(nativeEpoch, current);
    const [oldest] = native.keys();
    if (native.size > ENGINES_KEPT && oldest !== undefined) native.delete(oldest);
  }
  return epoch;
}

/** Null before the first. */
export function servingNow(): Serving | null {
  return current;
}

/** What served with that ClamAV engine; one that was loaded without us serves without rules, by its own epoch. */
export function servingWith(nativeEpoch: number): Serving {
  return native.get(nativeEpoch) ?? { epoch: nativeEpoch, nativeEpoch, rules: null };
}
