// Scans that lie ready at a thread, behind the one that it is at. The thread need not wait until this process has heard of the end of the one before.
import { performance } from 'node:perf_hooks';
import type { FairQueue } from './fair-queue.js';
import { AHEAD_MS, type Thread } from './threads.js';
import type { Origin } from './waiting-scans.js';

export interface Ahead<Item> {
  readonly size: number;
  items(): Item[];
  /** The next scan of the queue lies at the thread from now on. It still counts as waiting, but for its account's time. */
  add(thread: Thread, nowMs: number): Item;
  /** Back into the queue. Where the thread has begun it, this is its turn. */
  recall(item: Item): void;
  recallAll(): void;
  /** The same for the scan at this thread. */
  recallFrom(thread: Thread): void;
  /** The thread is back from the scan before: the turn of the one that lies there. */
  promoteAt(thread: Thread): void;
  stop(): void;
}

export interface AheadOptions<Item extends Origin<Item>> {
  readonly queue: FairQueue<Item>;
  readonly onBegun: (item: Item, thread: Thread) => void;
  /** Scans were called back, since those before them take long. */
  readonly onLong: () => void;
}

/** A scan that lies at a thread behind another one. */
interface Lying<Item> {
  readonly item: Item;
  readonly thread: Thread;
  readonly sinceMs: number;
}

export function createAhead<Item extends Origin<Item>>({ queue, onBegun, onLong }: AheadOptions<Item>): Ahead<Item> {
  /** The oldest first; one for each thread at most. */
  const lying: Lying<Item>[] = [];
  let alarm: NodeJS.Timeout | null = null;

  function takeOut(one: Lying<Item>): void {
    lying.splice(lying.indexOf(one), 1);
  }

  function promote(one: Lying<Item>): void {
    const { item, thread } = one;
    takeOut(one);
    queue.settled(item);
    onBegun(item, thread);
  }

  /** A scan whose turn it is may end at once, and that of others may come by it: who recalls several looks anew for the next. */
  function recall(one: Lying<Item>): void {
    const { item, thread } = one;
    if (!thread.takeBack()) {
      promote(one);
      return;
    }
    takeOut(one);
    queue.putBack(item, performance.now());
  }

  /** The scan before is a longer one after all. */
  function recallOld(): void {
    alarm = null;
    const nowMs = performance.now();
    for (let [one] = lying; one !== undefined && nowMs - one.sinceMs >= AHEAD_MS; [one] = lying) recall(one);
    if (lying.length > 0) alarm = setTimeout(recallOld, AHEAD_MS);
    onLong();
  }

  function at({ slot }: Thread): Lying<Item> | undefined {
    return lying.find((one) => one.thread.slot === slot);
  }

  return {
    get size() {
      return lying.length;
    },
    items: () => lying.map(({ item }) => item),
    add(thread, nowMs) {
      const item = queue.lift(nowMs);
      if (item === undefined) throw new Error('Nothing waits');
      lying.push({ item, thread, sinceMs: nowMs });
      alarm ??= setTimeout(recallOld, AHEAD_MS);
      return item;
    },
    recall(item) {
      const one = lying.find((each) => each.item === item);
      if (one !== undefined) recall(one);
    },
    recallAll() {
      for (let [one] = lying; one !== undefined; [one] = lying) recall(one);
    },
    recallFrom(thread) {
      const one = at(thread);
      if (one !== undefined) recall(one);
    },
    promoteAt(thread) {
      const one = at(thread);
      if (one !== undefined) promote(one);
    },
    stop() {
      if (alarm !== null) clearTimeout(alarm);
    },
  };
}
