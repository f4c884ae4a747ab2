// Deadlines: the time that the other side has. It stands still while the other side waits for us. As a callback, or as a signal.
import { performance } from 'node:perf_hooks';

export interface Clock {
  /** Goes on. */
  start(): void;
  stop(): void;
  /** Has its whole time again; it goes or stands as before. */
  renew(): void;
}

export interface Deadline extends Pick<Clock, 'start' | 'stop'> {
  /** Aborts with the given reason when the time is over, with the client's when the client goes away. */
  readonly signal: AbortSignal;
  /** Forgets timer and listener. */
  end(): void;
}

/** Begins a timer that calls back after so long, unless it is stopped before. */
export type StartTimer = (delayMs: number, act: () => void) => { stop(): void };

function startNodeTimer(delayMs: number, act: () => void): { stop(): void } {
  const timer = setTimeout(act, Math.max(0, delayMs));
  return { stop: () => clearTimeout(timer) };
}

/** Calls back when it has gone for so long; it stands until it is started. `startTimer`: default one of Node. */
export function createClock(timeoutMs: number, onOver: () => void, startTimer: StartTimer = startNodeTimer): Clock {
  let leftMs = timeoutMs;
  let startedMs = 0;
  let timer: ReturnType<StartTimer> | null = null;

  function start(): void {
    if (timer !== null) return;
    startedMs = performance.now();
    timer = startTimer(leftMs, onOver);
  }
  function stop(): void {
    if (timer === null) return;
    timer.stop();
    timer = null;
    leftMs -= performance.now() - startedMs;
  }

  return {
    start,
    stop,
    renew() {
      const goes = timer !== null;
      stop();
      leftMs = timeoutMs;
      if (goes) start();
    },
  };
}

/** Goes at once. */
export function startDeadline(timeoutMs: number, clientSignal: AbortSignal, late: Error): Deadline {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(clientSignal.reason);
  const clock = createClock(timeoutMs, () => controller.abort(late));
  let hasEnded = false;
  clock.start();
  if (clientSignal.aborted) onAbort();
  else clientSignal.addEventListener('abort', onAbort);
  return {
    signal: controller.signal,
    start() {
      if (!hasEnded) clock.start();
    },
    stop: clock.stop,
    end() {
      hasEnded = true;
      clock.stop();
      clientSignal.removeEventListener('abort', onAbort);
    },
  };
}
