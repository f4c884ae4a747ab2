// The queue of scans that wait for a thread: bounded, smaller content first, and nothing starves.

/** Bytes that count as one millisecond of waiting: what a scan thread gets through, roughly (engine.md: 100 KB in 2 ms). */
const BYTES_PER_MS = 50 * 1024;

export interface ScanQueue<Item> {
  readonly size: number;
  /** False when the queue is full. */
  push(item: Item, sizeBytes: number, nowMs: number): boolean;
  /** The item that is due first, taken out. */
  shift(): Item | undefined;
  /** Takes an item out; false when it isn't there (any more). */
  remove(item: Item): boolean;
}

interface Entry<Item> {
  readonly item: Item;
  readonly dueMs: number;
  readonly sequence: number;
}

/**
 * An item is due at its arrival plus the time that its size is worth. So a small one passes a large one that came shortly
 * before it, and a large one is passed only by what arrives within that time: its own waiting is its ageing.
 */
export function createScanQueue<Item>(limit: number): ScanQueue<Item> {
  const heap: Entry<Item>[] = [];
  let sequence = 0;

  function before(a: Entry<Item>, b: Entry<Item>): boolean {
    return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.sequence < b.sequence);
  }

  function siftUp(entry: Entry<Item>, from: number): void {
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = heap[parentIndex];
      if (parent === undefined || !before(entry, parent)) break;
      heap[index] = parent;
      index = parentIndex;
    }
    heap[index] = entry;
  }

  function siftDown(entry: Entry<Item>, from: number): void {
    let index = from;
    for (;;) {
      let childIndex = 2 * index + 1;
      const left = heap[childIndex];
      if (left === undefined) break;
      let child = left;
      const right = heap[childIndex + 1];
      if (right !== undefined && before(right, left)) {
        child = right;
        childIndex += 1;
      }
      if (!before(child, entry)) break;
      heap[index] = child;
      index = childIndex;
    }
    heap[index] = entry;
  }

  function removeAt(index: number): void {
    const last = heap.pop();
    if (last === undefined || index === heap.length) return;
    siftDown(last, index);
    if (heap[index] === last) siftUp(last, index);
  }

  return {
    get size() {
      return heap.length;
    },
    push(item, sizeBytes, nowMs) {
      if (heap.length >= limit) return false;
      siftUp({ item, dueMs: nowMs + sizeBytes / BYTES_PER_MS, sequence: sequence++ }, heap.length);
      return true;
    },
    shift() {
      const first = heap[0];
      if (first === undefined) return undefined;
      removeAt(0);
      return first.item;
    },
    remove(item) {
      const index = heap.findIndex((entry) => entry.item === item);
      if (index === -1) return false;
      removeAt(index);
      return true;
    },
  };
}
