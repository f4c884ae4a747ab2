// Whose turn it is at the scan threads: the next of the queue when a thread of the set is free, and one beside the set for who has waited too long without any.
import { performance } from 'node:perf_hooks';
import { createFairQueue, type Origin } from './fair-queue.js';
import { startThreads, type Thread, type ThreadsOptions } from './threads.js';

/** How a scan came to its thread: as the only account there was, beside others, or by a thread beside the set. */
export type TurnKind = 'alone' | 'shared' | 'standIn';

export interface Turn {
  readonly thread: Thread;
  readonly kind: TurnKind;
  /** The thread has had its time: its account is no longer charged for it, and another one takes its place. */
  giveUp(): void;
  /** The thread has come back. */
  end(): void;
}

export interface Turns<Item extends Origin> {
  readonly waiting: number;
  readonly accountsWaiting: number;
  /** Threads that scans have beside the set. */
  readonly standIns: number;
  /** Null: it begins now, or waits for its turn. */
  ask(item: Item): 'full' | 'beyondShare' | null;
  /** False when it doesn't wait (any more). */
  leave(item: Item): boolean;
  /** Takes out all that waits. */
  clear(): Item[];
  /** From now on all wait; returns what ends that, and may be called more than once. */
  pause(): () => void;
  /** Ends the threads, but for those that are given up. */
  stop(): Promise<void>;
}

export interface TurnsOptions<Item> {
  readonly queueLimit: number;
  readonly threads: Omit<ThreadsOptions, 'onFree'>;
  /** Before it waits, which may not be for long. */
  readonly onWait: (item: Item) => void;
  readonly onTurn: (item: Item, turn: Turn) => void;
}

/**
 * A scan that runs can't be stopped. So an account without any thread waits so long for one of the set, and then one beside the set
 * stands in for it: the kernel shares the cores between them. Once that was necessary, nobody without a thread waits, until the set has a
 * thread to spare again.
 */
const PATIENCE_MS = 500;

export function startTurns<Item extends Origin>(options: TurnsOptions<Item>): Turns<Item> {
  const { onWait, onTurn } = options;
  const queue = createFairQueue<Item>(options.queueLimit);
  const threads = startThreads({ ...options.threads, onFree: dispatch });
  let pauses = 0;
  let isPressed = false;
  let alarm: NodeJS.Timeout | null = null;

  function dispatch(): void {
    while (pauses === 0) {
      const nowMs = performance.now();
      const isFree = threads.free > 0;
      const item = isFree ? queue.shift(nowMs) : nextForStandIn(nowMs);
      if (item === undefined) {
        if (isFree) isPressed = false;
        break;
      }
      begin(item, isFree);
    }
    lookAgain();
  }

  function nextForStandIn(nowMs: number): Item | undefined {
    if (!threads.hasStandIn) return undefined;
    const item = queue.shiftLacking(isPressed ? nowMs : nowMs - PATIENCE_MS, nowMs);
    if (item !== undefined) isPressed = true;
    return item;
  }

  /** When somebody's patience ends. A scan that waits longer waits for a thread that comes free, or has started. */
  function lookAgain(): void {
    const sinceMs = queue.lackingSinceMs;
    if (sinceMs === null || pauses > 0) return;
    threads.prepareStandIn();
    const leftMs = sinceMs + PATIENCE_MS - performance.now();
    if (alarm !== null || (leftMs <= 0 && !threads.hasStandIn)) return;
    alarm = setTimeout(
      () => {
        alarm = null;
        dispatch();
      },
      Math.max(0, Math.ceil(leftMs)),
    );
  }

  function begin(item: Item, isOfSet: boolean): void {
    const { account } = item;
    let isCharged = true;
    const thread = threads.take();
    const endCharge = (): void => {
      if (isCharged) queue.end(account, performance.now());
      isCharged = false;
    };
    onTurn(item, {
      thread,
      kind: !isOfSet ? 'standIn' : queue.accountsActive > 1 ? 'shared' : 'alone',
      giveUp() {
        endCharge();
        thread.lose();
        dispatch();
      },
      end() {
        endCharge();
        thread.release();
        dispatch();
      },
    });
  }

  return {
    get waiting() {
      return queue.size;
    },
    get accountsWaiting() {
      return queue.accountsWaiting;
    },
    get standIns() {
      return threads.standIns;
    },
    ask(item) {
      const nowMs = performance.now();
      if (pauses === 0 && queue.size === 0 && threads.free > 0) {
        queue.begin(item.account, nowMs);
        begin(item, true);
        return null;
      }
      const answer = queue.push(item, nowMs);
      if (answer !== null) return answer;
      onWait(item);
      dispatch();
      return null;
    },
    leave: (item) => queue.remove(item),
    clear: () => queue.clear(),
    pause() {
      pauses += 1;
      let isPaused = true;
      return () => {
        if (!isPaused) return;
        isPaused = false;
        pauses -= 1;
        dispatch();
      };
    },
    stop() {
      if (alarm !== null) clearTimeout(alarm);
      return threads.stop();
    },
  };
}
