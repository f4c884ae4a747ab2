// Whose turn it is at the scan threads. A free thread of the set takes the next scan of the queue; an account that has waited too long without a thread gets one beside the set.
import { performance } from 'node:perf_hooks';
import { type Ahead, createAhead } from './ahead.js';
import { createFairQueue, type FairQueue } from './fair-queue.js';
import { createPatience } from './patience.js';
import { startThreads, type Thread, type ThreadsOptions } from './threads.js';
import type { Origin } from './waiting-scans.js';

/** How a scan came to its thread: as the only account there was, beside others, or by a thread beside the set. */
export type TurnKind = 'alone' | 'shared' | 'standIn';

export interface Turn {
  readonly thread: Thread;
  readonly kind: TurnKind;
  /** The thread has had its time: its account is no longer charged for it, and another one takes its place. */
  giveUp(): void;
  /** The scan is posted once more: nothing that waits behind it comes between. */
  again(): void;
  /** The thread has come back. */
  end(): void;
}

export interface Turns<Item extends Origin<Item>> {
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
  /** Ends the threads, but for those that are given up. */
  stop(): Promise<void>;
}

export interface TurnsOptions<Item> {
  readonly queueLimit: number;
  readonly threads: Omit<ThreadsOptions, 'onFree'>;
  /** Before it waits, which may not be for long. */
  readonly onWait: (item: Item) => void;
  /** It goes to the thread, behind the scan that is there. It still waits: its turn comes, or it is taken back from there. */
  readonly onAhead: (item: Item, thread: Thread) => void;
  /** Of one that went ahead: it has begun. */
  readonly onTurn: (item: Item, turn: Turn) => void;
}

export function startTurns<Item extends Origin<Item>>(options: TurnsOptions<Item>): Turns<Item> {
  const queue = createFairQueue<Item>(options.queueLimit);
  const threads = startThreads({ ...options.threads, onFree: dispatch });
  const patience = createPatience(queue, threads, dispatch);
  const onBegun = (item: Item, thread: Thread): void => startTurn(item, thread, 'set');
  const ahead = createAhead<Item>({ queue, onBegun, onLong: dispatch });

  function dispatch(): void {
    for (;;) {
      const isFree = threads.free > 0;
      // A thread has nothing to do: what lies behind a scan of another one need not.
      if (isFree && queue.size === 0 && ahead.size > 0) ahead.recallAll();
      if (queue.size === 0) {
        if (isFree) patience.relax();
        break;
      }
      const nowMs = performance.now();
      const item = isFree ? queue.shift(nowMs) : patience.next(nowMs);
      if (item !== undefined) startTurn(item, threads.take(), isFree ? 'set' : 'standIn');
      else if (isFree || !goAhead(nowMs)) break;
    }
    if (queue.size > 0) patience.watch();
  }

  /** While scans take a moment, the next one lies ready at a thread. False: there is no such thread. */
  function goAhead(nowMs: number): boolean {
    const thread = threads.takeAhead();
    if (thread === null) return false;
    options.onAhead(ahead.add(thread, nowMs), thread);
    return true;
  }

  function startTurn(item: Item, thread: Thread, by: 'set' | 'standIn'): void {
    const kind = by === 'standIn' ? 'standIn' : queue.accountsActive > 1 ? 'shared' : 'alone';
    options.onTurn(item, createTurn({ account: item.account, thread, kind, queue, ahead, dispatch }));
  }

  return {
    get waiting() {
      return queue.size + ahead.size;
    },
    get accountsWaiting() {
      const names = ahead.items().map(({ account }) => account);
      return queue.accountsWaiting + new Set(names.filter((name) => !queue.hasWaiting(name))).size;
    },
    get standIns() {
      return threads.standIns;
    },
    ask(item) {
      const nowMs = performance.now();
      if (queue.size === 0 && threads.free > 0) {
        queue.begin(item.account, nowMs);
        startTurn(item, threads.take(), 'set');
        return null;
      }
      const answer = queue.push(item, nowMs);
      if (answer !== null) return answer;
      options.onWait(item);
      // An account without a thread comes before one that has a thread and a scan ready at another.
      if (ahead.size > 0 && queue.lacks(item.account)) ahead.recallAll();
      dispatch();
      return null;
    },
    leave(item) {
      ahead.recall(item);
      return queue.remove(item);
    },
    clear() {
      ahead.recallAll();
      return queue.clear();
    },
    stop() {
      patience.stop();
      ahead.stop();
      return threads.stop();
    },
  };
}

interface TurnParts<Item extends Origin<Item>> extends Pick<Turn, 'thread' | 'kind'>, Pick<Item, 'account'> {
  readonly queue: FairQueue<Item>;
  readonly ahead: Ahead<Item>;
  readonly dispatch: () => void;
}

/** The account is charged until the thread is given up or back. */
function createTurn<Item extends Origin<Item>>(parts: TurnParts<Item>): Turn {
  const { account, thread, kind, queue, ahead, dispatch } = parts;
  let isCharged = true;

  function endCharge(): void {
    if (isCharged) queue.end(account, performance.now());
    isCharged = false;
  }

  return {
    thread,
    kind,
    giveUp() {
      endCharge();
      ahead.recallFrom(thread);
      thread.giveUp();
      dispatch();
    },
    again: () => ahead.recallFrom(thread),
    end() {
      endCharge();
      thread.release();
      ahead.promoteAt(thread);
      dispatch();
    },
  };
}
