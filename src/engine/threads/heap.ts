// A binary heap that knows where each item is: the first of them at once, any of them out or to its new place in logarithmic time.

/** Where an item is in a heap; only the heap writes to it. A Map instead would keep what was in it (waiting/line.ts). */
export interface HeapPlace {
  /** -1: it isn't in it. */
  index: number;
}

/** Of an item that is in no heap. */
export function newHeapPlace(): HeapPlace {
  return { index: -1 };
}

export interface Heap<Item> {
  readonly size: number;
  first(): Item | undefined;
  /** Of an item that isn't in it. */
  push(item: Item): void;
  /** False when it isn't in it. */
  remove(item: Item): boolean;
  /** What it is ordered by has changed. */
  moved(item: Item): void;
}

/** `before`: a strict order that stays as it is between two calls of `moved`. `placeOf`: an item's place in this heap. */
export function createHeap<Item>(
  before: (one: Item, other: Item) => boolean,
  placeOf: (item: Item) => HeapPlace,
): Heap<Item> {
  const heap: Item[] = [];

  function put(item: Item, index: number): void {
    heap[index] = item;
    placeOf(item).index = index;
  }

  function siftUp(item: Item, from: number): void {
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = heap[parentIndex];
      if (parent === undefined || !before(item, parent)) break;
      put(parent, index);
      index = parentIndex;
    }
    put(item, index);
  }

  function siftDown(item: Item, from: number): void {
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
      if (!before(child, item)) break;
      put(child, index);
      index = childIndex;
    }
    put(item, index);
  }

  function settle(item: Item, index: number): void {
    siftDown(item, index);
    if (heap[index] === item) siftUp(item, index);
  }

  return {
    get size() {
      return heap.length;
    },
    first: () => heap[0],
    push: (item) => siftUp(item, heap.length),
    remove(item) {
      const place = placeOf(item);
      const { index } = place;
      if (index === -1) return false;
      place.index = -1;
      const last = heap.pop();
      if (last !== undefined && last !== item) settle(last, index);
      return true;
    },
    moved(item) {
      const { index } = placeOf(item);
      if (index !== -1) settle(item, index);
    },
  };
}
