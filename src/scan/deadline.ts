// The time that the other side has, which stands still while it is we who keep it waiting; for a download, as a signal.
import { performance } from 'node:perf_hooks';

export interface Clock {
  /** Goes on. */
  start(): void;
  stop(): void;
}

export interface Deadline extends Clock {
  /** Aborts with the given reason when the time is over, with the client's when the client goes away. */
  readonly signal: AbortSignal;
  /** Forgets timer and listener. */
  end(): void;
}

/** Calls back when it has gone for so long; it stands until it is started. */
export function createClock(timeoutMs: number, onOver: () => void): Clock {
  let leftMs = timeoutMs;
  let startedMs = 0;
  let timer: NodeJS.Timeout | null = null;
  return {
    start() {
      if (timer !== null) return;
      startedMs = performance.now();
      timer = setTimeout(onOver, Math.max(0, leftMs));
    },
    stop() {
      if (timer === null) return;
      clearTimeout(timer);
      timer = null;
      leftMs -= performance.now() - startedMs;
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
