// Waits that end: what doesn't answer in time counts as down. Time in which this process itself stood still doesn't count.
import { performance } from 'node:perf_hooks';

/** When a timer is later than this, this process stood still, and the answer may have come meanwhile. */
const STALL_MS = 100;
/** How often it waits again for that reason: the wait must end also in a process that always stands still. */
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

/** As `within`, but with the other value in the place of an answer that comes later. */
export async function withinOr<T>(work: Promise<T>, timeoutMs: number, other: T): Promise<T> {
  try {
    return await within(work, timeoutMs);
  } catch (error) {
    if (error instanceof NoAnswer) return other;
    throw error;
  }
}

/** Whether the work has ended in the time, by the clock alone: this process may have stood still meanwhile. Rejects as the work does. */
export async function endsWithin(work: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), timeoutMs);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves after the delay, or as soon as the signal aborts. */
export function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, delayMs);
    signal.addEventListener('abort', done);
  });
}
