// Waits that end: for what must answer us in time, where time in which this process itself stood still does not count; and deadlines, the time that the other side has.
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

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
export async function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  await delay(delayMs, undefined, { signal }).catch(() => undefined);
}

export type Clock = ReturnType<typeof createClock>;

/** The time that the other side has: it stands still while the other side waits for us, and until it is started. Calls back when it has gone for so long. */
export function createClock(timeoutMs: number, onOver: () => void) {
  let leftMs = timeoutMs;
  let startedMs = 0;
  let timer: NodeJS.Timeout | null = null;

  function start(): void {
    if (timer !== null) return;
    startedMs = performance.now();
    timer = setTimeout(onOver, Math.max(0, leftMs));
  }
  function stop(): void {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    leftMs -= performance.now() - startedMs;
  }

  return {
    start,
    stop,
    /** It has its whole time again; it goes or stands as before. */
    renew(): void {
      const goes = timer !== null;
      stop();
      leftMs = timeoutMs;
      if (goes) start();
    },
  };
}

export type Deadline = ReturnType<typeof startDeadline>;

/** A clock that goes at once. */
export function startDeadline(timeoutMs: number, clientSignal: AbortSignal, late: Error) {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(clientSignal.reason);
  const clock = createClock(timeoutMs, () => controller.abort(late));
  let hasEnded = false;
  clock.start();
  if (clientSignal.aborted) onAbort();
  else clientSignal.addEventListener('abort', onAbort);
  return {
    /** Aborts with the given reason when the time is over, with the client's when the client goes away. */
    signal: controller.signal,
    start(): void {
      if (!hasEnded) clock.start();
    },
    stop: clock.stop,
    end(): void {
      hasEnded = true;
      clock.stop();
      clientSignal.removeEventListener('abort', onAbort);
    },
  };
}

/** Who asks while one is under way has the same answer. */
export function oneAtATime<Result>(ask: () => Promise<Result>): () => Promise<Result> {
  let asked: Promise<Result> | null = null;
  return () => {
    asked ??= ask().finally(() => {
      asked = null;
    });
    return asked;
  };
}

/**
 * Who asks while there is no answer, or within so long after it was asked for, has the same one. `now`: milliseconds that only grow.
 */
export function sharedFor<Result>(
  keptMs: number,
  ask: () => Promise<Result>,
  now = (): number => performance.now(),
): () => Promise<Result> {
  let latest: { readonly askedMs: number; readonly answer: Promise<Result> } | null = null;
  let isWaiting = false;
  return () => {
    if (latest !== null && (isWaiting || now() - latest.askedMs < keptMs)) return latest.answer;
    isWaiting = true;
    const answer = ask().finally(() => {
      isWaiting = false;
    });
    latest = { askedMs: now(), answer };
    return answer;
  };
}

/** A promise, and what settles it. */
export function later<T = void>() {
  let resolve: (value: T) => void = () => undefined;
  let reject: (reason: unknown) => void = () => undefined;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}
