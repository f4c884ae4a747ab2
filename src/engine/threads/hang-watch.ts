// The watch over a scan at a thread: when it is late, when its thread is given up, and when it is its content that hangs and not the machine.
import { performance } from 'node:perf_hooks';
import { startCoarseTimer } from '../../waiting/coarse-timer.js';
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
 * A thread is given up when it has been at a scan for this share of the deadline. If content that hangs held all threads until its
 * deadline, the scans that wait would miss theirs. libclamav gives up by itself before this share. With encrypted content, which it looks
 * at twice, it gives up before the deadline.
 */
const GIVEN_UP_SHARE = 0.5;
/**
 * A content hangs when its thread, after it was given up, has taken this share of the deadline once more. What counts is processor time,
 * and time asleep while this process runs. libclamav measures real time: if it can end a content by itself at all, it does so before
 * that, even on an overloaded machine. A process that stands still says nothing of the content, nor does a thread that waits for a
 * processor, a disk or swapped memory.
 */
const HUNG_SHARE = 0.5;
/** Looks between the half of the deadline and its end. */
const LOOKS = 30;
const LOOK_LEAST_MS = 50;

/** Returns what ends the watch. Not a deadline of deadline.ts: that is one moment, and this looks at the thread again and again until and after it. */
export function watchScan(options: WatchOptions): () => void {
  const { scanTimeoutMs, graceMs, onGivenUp, onLate, onHung } = options;
  const startedMs = performance.now();
  let timer = startCoarseTimer(scanTimeoutMs * GIVEN_UP_SHARE, () => {
    // It comes too late where this process has stood still: then the thread has not had its half yet.
    const overdueMs = performance.now() - startedMs - scanTimeoutMs * GIVEN_UP_SHARE;
    onGivenUp();
    watchLate(scanTimeoutMs * HUNG_SHARE + Math.min(overdueMs, scanTimeoutMs * GIVEN_UP_SHARE));
  });

  function watchLate(hungMs: number): void {
    const lateAtMs = performance.now() + scanTimeoutMs * (1 - GIVEN_UP_SHARE) + graceMs;
    const everyMs = Math.max(LOOK_LEAST_MS, (scanTimeoutMs * GIVEN_UP_SHARE) / LOOKS);
    const evidence = startEvidence(options.threadId, everyMs);
    let isLate = false;
    const look = (): void => {
      timer = startCoarseTimer(everyMs, look);
      const takenMs = evidence();
      if (performance.now() < lateAtMs) return;
      if (!isLate) onLate();
      isLate = true;
      if (takenMs < hungMs) return;
      timer.stop();
      onHung();
    };
    timer = startCoarseTimer(everyMs, look);
  }

  return () => timer.stop();
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
