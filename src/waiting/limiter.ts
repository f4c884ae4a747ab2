// A bound on work of one kind: so much runs at one time, so much waits for a place and for so long, and the rest is refused.

export interface Limiter {
  /** Runs the work when there is a place; throws the refusal when there is none in time. */
  run<T>(work: () => Promise<T>, refusal: () => Error): Promise<T>;
}

export interface LimiterOptions {
  readonly running: number;
  readonly waiting: number;
  /** How long one waits; unset: until there is a place. */
  readonly waitMs?: number;
}

export function createLimiter({ running: runningMax, waiting: waitingMax, waitMs }: LimiterOptions): Limiter {
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
    async run(work, refusal) {
      if (!(await place())) throw refusal();
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
}
