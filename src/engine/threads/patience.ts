// How long an account waits for a thread of the set before it gets one beside the set.
import { performance } from 'node:perf_hooks';
import type { FairQueue } from './fair-queue.js';
import type { Threads } from './threads.js';
import type { Origin } from './waiting-scans.js';

/**
 * A scan that runs can't be stopped. So an account without any thread waits so long for one of the set. Then it gets one beside the set,
 * and the kernel shares the cores between them. Once that was necessary, accounts without a thread get one beside the set at once, until
 * the set has a free thread again.
 */
const PATIENCE_MS = 500;

export interface Patience<Item> {
  /** The scan that a thread beside the set is for, taken out; undefined: there is no such thread, or each can wait. */
  next(nowMs: number): Item | undefined;
  /** The set has a free thread again, and nothing waits. */
  relax(): void;
  /** Calls back when the next account has waited long enough. A scan that waits longer waits for a thread that comes free, or has started. */
  watch(): void;
  stop(): void;
}

/** `onOver`: an account has waited long enough. */
export function createPatience<Item extends Origin<Item>>(
  queue: FairQueue<Item>,
  threads: Pick<Threads, 'hasStandIn' | 'prepareStandIn'>,
  onOver: () => void,
): Patience<Item> {
  let isPressed = false;
  let alarm: NodeJS.Timeout | null = null;

  function ring(): void {
    alarm = null;
    onOver();
  }

  return {
    next(nowMs) {
      if (!threads.hasStandIn) return undefined;
      const item = queue.shiftLacking(isPressed ? nowMs : nowMs - PATIENCE_MS, nowMs);
      if (item !== undefined) isPressed = true;
      return item;
    },
    relax() {
      isPressed = false;
    },
    watch() {
      const sinceMs = queue.lackingSinceMs;
      if (sinceMs === null) return;
      threads.prepareStandIn();
      const leftMs = sinceMs + PATIENCE_MS - performance.now();
      if (alarm !== null || (leftMs <= 0 && !threads.hasStandIn)) return;
      alarm = setTimeout(ring, Math.max(0, Math.ceil(leftMs)));
    },
    stop() {
      if (alarm !== null) clearTimeout(alarm);
    },
  };
}
