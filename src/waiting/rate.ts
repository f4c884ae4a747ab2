// A rate for each of many subjects: so many at once, and one more each so often. One number is kept for each.
import { recentTable } from '../recent-table.js';

export interface Rate {
  /** Counts one. 0: it may be done; otherwise it didn't count, and the whole seconds until one may. */
  take(subject: string): number;
}

export interface RateOptions {
  readonly burst: number;
  readonly everyMs: number;
  /** The one that was seen longest ago makes room, and begins anew. */
  readonly subjectsMax: number;
}

/** `clock`: milliseconds that only grow. */
export function createRate({ burst, everyMs, subjectsMax }: RateOptions, clock: () => number): Rate {
  /** When all that was taken will have been allowed. */
  const fullUntilMs = recentTable<number>(subjectsMax);
  return {
    take(subject) {
      const nowMs = clock();
      const nextMs = Math.max(nowMs, fullUntilMs.get(subject) ?? 0) + everyMs;
      const waitMs = nextMs - nowMs - burst * everyMs;
      if (waitMs > 0) return Math.ceil(waitMs / 1000);
      fullUntilMs.set(subject, nextMs);
      return 0;
    },
  };
}
