// The watch over a scan at a thread: when it is late, when its thread is given up, and when it is its content that hangs and not the machine.
import { performance } from 'node:perf_hooks';
import { type ThreadTime, threadTime } from './thread-time.js';

export interface WatchOptions {
  readonly scanTimeoutMs: number;
  /** A thread that comes back so long after the deadline is slow, not late. */
  readonly graceMs: number;
  /** As of Thread. */
  readonly threadId: () => number | null | undefined;
  /** It has had half of the deadline: another thread is to take its place. */
  readonly onGivenUp: () => void;
  /** The deadline and the grace are over. */
  readonly onLate: () => void;
  /** Once, after `onLate`: whatever the machine does, this content won't end. */
  readonly onHung: () => void;
}

/**
 * A thread is given up when it has been at a scan for this share of the deadline: with all of them held by content that hangs, what
 * waits would miss its own deadline before theirs is over. libclamav gives up by itself before that, or, with encrypted content that
 * it looks at twice, before the deadline.
 */
const GIVEN_UP_SHARE = 0.5;
/**
 * A content hangs when its thread, after it was given up, has taken so much of the deadline once more: of processor time, or asleep
 * while this process has its turns. libclamav looks at the clock on the wall, so content that it ends by itself at all can't use
 * that up, however few turns a machine that is overloaded gives its thread. A process that stands still, or a thread that waits for a
 * processor, a disk or swapped memory, says nothing of the content.
 */
const HUNG_SHARE = 0.5;
/** Looks between the half of the deadline and its end. */
const LOOKS = 30;
const LOOK_LEAST_MS = 50;

/** Returns what ends the watch. */
export function watchScan(options: WatchOptions): () => void {
  const { scanTimeoutMs, graceMs, onGivenUp, onLate, onHung } = options;
  const startedMs = performance.now();
  let timer = setTimeout(() => {
    // It comes too late where this process has stood still: then the thread has not had its half yet.
    const overdueMs = performance.now() - startedMs - scanTimeoutMs * GIVEN_UP_SHARE;
    onGivenUp();
    watchLate(scanTimeoutMs * HUNG_SHARE + Math.min(overdueMs, scanTimeoutMs * GIVEN_UP_SHARE));
  }, scanTimeoutMs * GIVEN_UP_SHARE);

  function watchLate(hungMs: number): void {
    const lateAtMs = performance.now() + scanTimeoutMs * (1 - GIVEN_UP_SHARE) + graceMs;
    const everyMs = Math.max(LOOK_LEAST_MS, (scanTimeoutMs * GIVEN_UP_SHARE) / LOOKS);
    const evidence = startEvidence(options.threadId, everyMs);
    let isLate = false;
    const look = (): void => {
      timer = setTimeout(look, everyMs);
      const takenMs = evidence();
      if (performance.now() < lateAtMs) return;
      if (!isLate) onLate();
      isLate = true;
      if (takenMs < hungMs) return;
      clearTimeout(timer);
      onHung();
    };
    timer = setTimeout(look, everyMs);
  }

  return () => clearTimeout(timer);
}

/** Returns what is to be called at every look, and says how long the thread has worked, or slept without a reason, since the start. */
function startEvidence(threadId: WatchOptions['threadId'], everyMs: number): () => number {
  const sample = (): { id: number | null | undefined; atMs: number; thread: ThreadTime | null } => {
    const id = threadId();
    return { id, atMs: performance.now(), thread: typeof id === 'number' ? threadTime(id) : null };
  };
  let last = sample();
  let takenMs = 0;
  return () => {
    const now = sample();
    const passedMs = now.atMs - last.atMs;
    // This process has had no turn, or has stood still.
    const isTooLate = passedMs > 2 * everyMs;
    if (last.thread !== null && now.thread !== null) {
      const workedMs = now.thread.usedMs - last.thread.usedMs;
      const hasSlept = last.thread.isAsleep && now.thread.isAsleep && !isTooLate;
      takenMs += hasSlept ? Math.max(passedMs, workedMs) : workedMs;
    } else if (last.id !== undefined && !isTooLate) {
      // Where the kernel says nothing the clock has to do. A thread that has yet to start has not even seen the content.
      takenMs += passedMs;
    }
    last = now;
    return takenMs;
  };
}
