// The watch over threads that don't come back from a scan: when one gets less of the processor, when it is given up, and when it is late.
import { HangWatch } from './hang-watch.js';
import type { ThreadScan } from './thread-scan.js';
import type { ThreadSlot } from './thread-slot.js';

export interface WatchOptions {
  readonly scanTimeoutMs: number;
  /** A thread that comes back so long after the deadline is slow, not late. */
  readonly graceMs: number;
  /** It has had half of the deadline: another thread is to take its place. */
  readonly onGivenUp: (slot: ThreadSlot, scan: ThreadScan, nowMs: number) => void;
  /** Once, after it was late: whatever the machine does, this content won't end. */
  readonly onHung: (scan: ThreadScan) => void;
}

/** A thread that has been at one scan for so long gets what others leave of the cores, until its end. */
const LOWER_MS = 4_000;
/**
 * A thread is given up when it has been at a scan for this share of the deadline. If content that hangs held all threads until its
 * deadline, the scans that wait would miss theirs. libclamav gives up by itself before this share. With encrypted content, which it looks
 * at twice, it gives up before the deadline.
 */
const GIVEN_UP_SHARE = 0.5;
/** A content hangs when its thread, after it was given up, has taken this share of the deadline once more. */
const HUNG_SHARE = 0.5;
/** Looks between the half of the deadline and its end. */
const LOOKS = 30;
const LOOK_LEAST_MS = 50;

/** Returns what is to be called for each thread, again and again. */
export function createWatch(options: WatchOptions): (slot: ThreadSlot, nowMs: number) => void {
  const { scanTimeoutMs, graceMs, onGivenUp, onHung } = options;
  const halfMs = scanTimeoutMs * GIVEN_UP_SHARE;
  const everyMs = Math.max(LOOK_LEAST_MS, halfMs / LOOKS);
  return (slot, nowMs) => {
    const { scan, watch } = slot;
    if (scan === null) return;
    const takenMs = nowMs - slot.sinceMs;
    if (takenMs >= LOWER_MS) slot.lowerPriority();
    if (watch !== null) {
      if (watch.look(slot.threadId(), nowMs)) onHung(scan);
    } else if (takenMs >= halfMs) {
      // It comes too late where this process has stood still: then the thread has not had its half yet.
      const hungMs = scanTimeoutMs * HUNG_SHARE + Math.min(takenMs - halfMs, halfMs);
      const lateAtMs = nowMs + scanTimeoutMs - halfMs + graceMs;
      slot.watch = new HangWatch(slot.threadId(), nowMs, { lateAtMs, everyMs, hungMs });
      if (!slot.isGivenUp) onGivenUp(slot, scan, nowMs);
    }
  };
}
