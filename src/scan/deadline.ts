// The total time of a download, as a signal: it runs while the origin is waited for, not while we keep the origin waiting.
import { performance } from 'node:perf_hooks';

export interface Deadline {
  /** Aborts with the given reason when the time is over, with the client's when the client goes away. */
  readonly signal: AbortSignal;
  /** Stops the clock until the work has settled. */
  hold<Result>(work: Promise<Result>): Promise<Result>;
  /** Forgets timer and listener. */
  end(): void;
}

export function startDeadline(timeoutMs: number, clientSignal: AbortSignal, late: Error): Deadline {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(clientSignal.reason);
  let leftMs = timeoutMs;
  let startedMs = performance.now();
  let timer = setTimeout(() => controller.abort(late), leftMs);
  if (clientSignal.aborted) onAbort();
  else clientSignal.addEventListener('abort', onAbort);
  return {
    signal: controller.signal,
    async hold(work) {
      clearTimeout(timer);
      leftMs -= performance.now() - startedMs;
      try {
        return await work;
      } finally {
        startedMs = performance.now();
        timer = setTimeout(() => controller.abort(late), Math.max(0, leftMs));
      }
    },
    end() {
      clearTimeout(timer);
      clientSignal.removeEventListener('abort', onAbort);
    },
  };
}
