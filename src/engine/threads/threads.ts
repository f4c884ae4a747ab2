// Threads for scans: a set of them, another one for each that is given up in native code, and a few beside them while all are taken.
import { performance } from 'node:perf_hooks';
import { createOccupancy } from './occupancy.js';
import { createSpare } from './spare.js';
import type { ScanTask, ScanTaskResult, ThreadSettings } from './task.js';
import type { ThreadSlot } from './thread-slot.js';
import { openThreadSlots } from './thread-slots.js';

export interface Threads {
  /** So many of the set can be taken now. */
  readonly free: number;
  /** Beside the set one can be taken now. */
  readonly hasStandIn: boolean;
  /** Threads taken beside the set. */
  readonly standIns: number;
  /** Only when one is free or can stand in; until it is released nobody else gets it. */
  take(): Thread;
  /** One that has begun its scan a moment ago, for the next scan to lie ready there; null: none has. */
  takeAhead(): Thread | null;
  /** One beside the set may soon be wanted: it takes a while to start. Calls back with `onFree`. */
  prepareStandIn(): void;
  /** Ends the threads, but for those that are given up: native code can't be stopped from outside. */
  stop(): Promise<void>;
}

/** A thread as a scan has it. */
export interface Thread {
  /** Equal for the scans of one thread. */
  readonly slot: object;
  /** The kernel's number of it; undefined: it has not said it yet, since it starts; null: there is no /proc to know it from. */
  id(): number | null | undefined;
  /** The thread scans it, after what was posted to it before. Calls back with null when the thread has died. */
  post(task: ScanTask, onEnd: (result: ScanTaskResult | null) => void): void;
  /** Takes back what was posted last, instead of its release; false: the thread is at it. */
  takeBack(): boolean;
  /** It has used up its time: it gets only what the others leave of the processor, and another thread takes its place in the set. */
  giveUp(): void;
  /** Of this scan; once. */
  release(): void;
}

export interface ThreadsOptions {
  /** Threads of the set. */
  readonly count: number;
  /** Threads beside it, at most. */
  readonly standIns: number;
  readonly settings: ThreadSettings;
  /** A thread can be taken that could not be taken before, other than by a release or because another one is given up. */
  readonly onFree: () => void;
}

/** A scan that is older may be a long one: nothing is put behind it. */
export const AHEAD_MS = 5;

export function startThreads({ count, standIns, settings, onFree }: ThreadsOptions): Threads {
  const occupancy = createOccupancy(count, standIns);
  const spare = createSpare({ isInUse: () => occupancy.standIns > 0, onLook: () => slots.trim() });
  const slots = openThreadSlots({
    count,
    settings,
    wanted: () => occupancy.wanted(spare.isKept),
    onStarted: onFree,
  });

  function release(slot: ThreadSlot): void {
    slot.scans -= 1;
    slot.sinceMs = performance.now();
    if (slot.scans > 0) return;
    if (slot.state !== 'givenUp') {
      occupancy.release();
      slots.rest(slot);
      return;
    }
    // To give it its priority back takes rights that the service needn't have. The thread that took its place stays.
    occupancy.endGivenUp();
    slots.dismiss(slot);
    slots.fill();
  }

  function giveUp(slot: ThreadSlot): void {
    if (slot.state === 'givenUp') return;
    occupancy.giveUp();
    slot.giveUp();
    slots.fill();
  }

  return {
    get free() {
      return Math.max(0, Math.min(slots.idle, occupancy.free));
    },
    get hasStandIn() {
      return slots.idle > 0 && occupancy.hasStandIn;
    },
    get standIns() {
      return occupancy.standIns;
    },
    take() {
      const slot = slots.takeIdle();
      if (slot === undefined) throw new Error('No thread is idle');
      slot.state = 'taken';
      slot.sinceMs = performance.now();
      occupancy.take();
      slots.fill();
      return openThread(slot, giveUp, release);
    },
    takeAhead() {
      // A thread beside the set is for accounts that have none.
      if (occupancy.standIns > 0) return null;
      const slot = slotAhead(slots.all());
      return slot === undefined ? null : openThread(slot, giveUp, release);
    },
    prepareStandIn() {
      if (standIns > 0 && spare.want()) slots.fill();
    },
    stop() {
      spare.stop();
      return slots.stop();
    },
  };
}

/** The slot for one more scan. */
function openThread(slot: ThreadSlot, giveUp: (slot: ThreadSlot) => void, release: (slot: ThreadSlot) => void): Thread {
  slot.scans += 1;
  return {
    slot,
    id: () => slot.link.threadId(),
    post: (task, onEnd) => slot.link.post(task, onEnd),
    takeBack() {
      if (!slot.link.takeBack()) return false;
      slot.scans -= 1;
      return true;
    },
    giveUp: () => giveUp(slot),
    release: () => release(slot),
  };
}

/** One that has begun its scan a moment ago, and has no other behind it. */
function slotAhead(slots: Iterable<ThreadSlot>): ThreadSlot | undefined {
  const nowMs = performance.now();
  for (const slot of slots) {
    if (slot.state !== 'taken' || slot.scans > 1 || nowMs - slot.sinceMs > AHEAD_MS) continue;
    if (slot.isReady && slot.link.hasRoom()) return slot;
  }
  return undefined;
}
