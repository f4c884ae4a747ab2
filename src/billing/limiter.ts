// How many calls may be at Stripe at one time: the others wait for a moment, so that a Stripe that hangs fills neither memory nor sockets.

export interface Limiter {
  /** Runs the work when there is room; null when there was none for `waitMs`. */
  run<T>(work: () => Promise<T>): Promise<{ readonly value: T } | null>;
}

export function createLimiter({ calls, waiting, waitMs }: { calls: number; waiting: number; waitMs: number }): Limiter {
  let running = 0;
  const queue = new Set<() => void>();

  function room(): Promise<boolean> {
    if (running < calls) {
      running += 1;
      return Promise.resolve(true);
    }
    if (queue.size >= waiting) return Promise.resolve(false);
    return new Promise((resolve) => {
      const enter = (): void => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        queue.delete(enter);
        resolve(false);
      }, waitMs);
      queue.add(enter);
    });
  }

  /** The place goes to who waits longest, or becomes free. */
  function leave(): void {
    for (const enter of queue) {
      queue.delete(enter);
      enter();
      return;
    }
    running -= 1;
  }

  return {
    async run(work) {
      if (!(await room())) return null;
      try {
        return { value: await work() };
      } finally {
        leave();
      }
    },
  };
}
