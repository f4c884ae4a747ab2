// Bounds on work of one kind: so much runs at one time, so much waits for a place and for so long, and the rest is refused; or all of it is done, a few steps or one
// round at a time.
import { recentTable } from '../recent-table.js';

export type Limiter = ReturnType<typeof createLimiter>;

export interface LimiterOptions {
  readonly running: number;
  readonly waiting: number;
  /** How long one waits; unset: until there is a place. */
  readonly waitMs?: number;
}

export function createLimiter({ running: runningMax, waiting: waitingMax, waitMs }: LimiterOptions) {
  let running = 0;
  const queue = new Set<() => void>();

  function place(): Promise<boolean> {
    if (running < runningMax) {
      running += 1;
      return Promise.resolve(true);
    }
    if (queue.size >= waitingMax) return Promise.resolve(false);
    return new Promise((resolve) => {
      const enter = (): void => {
        clearTimeout(timer);
        resolve(true);
      };
      const giveUp = (): void => {
        queue.delete(enter);
        resolve(false);
      };
      const timer = waitMs === undefined ? undefined : setTimeout(giveUp, waitMs);
      queue.add(enter);
    });
  }

  /** The place goes to the work that waits longest: what comes now doesn't overtake it. */
  function leave(): void {
    const [next] = queue;
    if (next === undefined) {
      running -= 1;
      return;
    }
    queue.delete(next);
    next();
  }

  return {
    get isIdle(): boolean {
      return running === 0;
    },
    /** Runs the work when there is a place; throws the refusal when there is none in time. */
    async run<T>(work: () => Promise<T>, refusal: () => Error): Promise<T> {
      if (!(await place())) throw refusal();
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
}

export interface RateOptions {
  readonly burst: number;
  readonly everyMs: number;
  /** The one that was seen longest ago makes room, and begins anew. */
  readonly subjectsMax: number;
}

/** `clock`: milliseconds that only grow. */
export function createRate({ burst, everyMs, subjectsMax }: RateOptions, clock: () => number) {
  /** When all that was taken will have been allowed. */
  const fullUntilMs = recentTable<number>(subjectsMax);
  return {
    /** Counts one. 0: it may be done; otherwise it didn't count, and the whole seconds until one may. */
    take(subject: string): number {
      const nowMs = clock();
      const nextMs = Math.max(nowMs, fullUntilMs.get(subject) ?? 0) + everyMs;
      const waitMs = nextMs - nowMs - burst * everyMs;
      if (waitMs > 0) return Math.ceil(waitMs / 1000);
      fullUntilMs.set(subject, nextMs);
      return 0;
    },
  };
}

/** Steps of one batch: a few milliseconds of Redis. */
const BATCH_STEPS = 200;

/**
 * A few at a time, so that the store that takes them can serve other requests meanwhile. Rejects with the first step that fails; the batches after it are not begun. `together` lets the steps of one travel as one.
 */
export async function inBatches<T>(
  all: readonly T[],
  step: (one: T) => Promise<unknown>,
  together: (begin: () => void) => void = (begin) => begin(),
): Promise<void> {
  for (let start = 0; start < all.length; start += BATCH_STEPS) {
    let steps: Promise<unknown>[] = [];
    together(() => {
      steps = all.slice(start, start + BATCH_STEPS).map(step);
    });
    await Promise.all(steps);
  }
}

/** `work` never rejects but in a round that is asked for. */
export function createRounds(everyMs: number, work: () => Promise<void>, onFailure?: (error: unknown) => void) {
  let running: Promise<void> | null = null;

  function now(): Promise<void> {
    running ??= work().finally(() => {
      running = null;
    });
    return running;
  }

  const timer = setInterval(() => void now().catch(onFailure), everyMs).unref();
  return {
    /** A round at once; calls while one runs share it. */
    now,
    /** Begins no more of them. */
    end: (): void => clearInterval(timer),
    /** The same, and waits for the one that runs. */
    async stop(): Promise<void> {
      clearInterval(timer);
      await running;
    },
  };
}
