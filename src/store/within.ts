// A wait that ends: what hangs is as good as down. A process that stalls itself says nothing about others.
import { performance } from 'node:perf_hooks';

/** A timer that is later than this was held up by this process, and so was the answer. */
const STALL_MS = 100;
/** Further waits for that reason: a process that always stalls must end as well. */
const STALLS_MAX = 3;

export class NoAnswer extends Error {
  readonly code = 'NO_ANSWER';

  constructor(timeoutMs: number) {
    super(`No answer within ${timeoutMs} ms`);
    this.name = 'NoAnswer';
  }
}

/** Rejects with NoAnswer after `timeoutMs`. The work itself goes on: nobody can take a query back that hangs in the network. */
export async function within<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    // Timers come before what the network has brought meanwhile: that is looked at first.
    const end = (): void => void setImmediate(() => reject(new NoAnswer(timeoutMs)));
    const wait = (stalls: number): void => {
      const startedAt = performance.now();
      timer = setTimeout(() => {
        const wasHeldUp = performance.now() - startedAt > timeoutMs + STALL_MS;
        if (wasHeldUp && stalls < STALLS_MAX) wait(stalls + 1);
        else end();
      }, timeoutMs);
    };
    wait(0);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
