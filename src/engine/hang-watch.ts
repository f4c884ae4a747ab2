// The watch over a scan at a thread: when it is late, when its thread is given up, and when it is its content that hangs and not the machine.
import { performance } from 'node:perf_hooks';
import { idleMs, threadTime } from './thread-time.js';

export interface WatchOptions {
  readonly scanTimeoutMs: number;
  /** A thread that comes back so long after the deadline is slow, not late. */
  readonly graceMs: number;
  /** The kernel's number of the thread; null: not known. */
  readonly threadId: () => number | null;
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
 * A content hangs when, after its thread was given up, it has taken so much of the deadline once more: of processor time, or asleep on
 * a machine with a core to spare. libclamav looks at the clock on the wall, so content that ends at all can't use that up, however
 * few of the turns it gets.
 */
const HUNG_SHARE = 0.5;
/** Looks between the half of the deadline and its end. */
const LOOKS = 30;
const LOOK_LEAST_MS = 50;
/** Of one core, in the time between two looks: with less of it idle, who sleeps may sleep because another one gets no turn. */
const IDLE_LEAST = 0.25;

/** Returns what ends the watch. */
export function watchScan(options: WatchOptions): () => void {
  const { scanTimeoutMs, graceMs, onGivenUp, onLate, onHung } = options;
  let timer = setTimeout(() => {
    onGivenUp();
    watchLate();
  }, scanTimeoutMs * GIVEN_UP_SHARE);

  function watchLate(): void {
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
      if (takenMs < scanTimeoutMs * HUNG_SHARE) return;
      clearTimeout(timer);
      onHung();
    };
    timer = setTimeout(look, everyMs);
  }

  return () => clearTimeout(timer);
}

/** Returns what is to be called at every look, and says how long the thread has worked, or slept without a reason, since the first. */
function startEvidence(threadId: () => number | null, everyMs: number): () => number {
  const sample = () => {
    const id = threadId();
    return { thread: id === null ? null : threadTime(id), idleMs: idleMs(), atMs: performance.now() };
  };
  let last = sample();
  let takenMs = 0;
  return () => {
    const now = sample();
    // What is longer than two looks was this process's own standstill.
    const passedMs = Math.min(now.atMs - last.atMs, 2 * everyMs);
    takenMs += takenOf(last, now, passedMs);
    last = now;
    return takenMs;
  };
}

type Sample = { readonly thread: ReturnType<typeof threadTime>; readonly idleMs: number | null; readonly atMs: number };

function takenOf(last: Sample, now: Sample, passedMs: number): number {
  // Where the kernel says nothing the clock has to do.
  if (last.thread === null || now.thread === null) return passedMs;
  const workedMs = now.thread.usedMs - last.thread.usedMs;
  const idle = last.idleMs === null || now.idleMs === null ? passedMs : now.idleMs - last.idleMs;
  const slept = last.thread.isAsleep && now.thread.isAsleep && idle >= (now.atMs - last.atMs) * IDLE_LEAST;
  return slept ? Math.max(passedMs, workedMs) : workedMs;
}
