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

interface State<Item> {
  readonly items: Item[];
  readonly before: (one: Item, other: Item) => boolean;
  readonly placeOf: (item: Item) => HeapPlace;
}

/**
 * `before`: a strict order that stays as it is between two calls of `moved`. `placeOf`: an item's place in this heap. Without getters and with
 * few functions of its own: one is made for each account that comes.
 */
export function createHeap<Item>(
  before: (one: Item, other: Item) => boolean,
  placeOf: (item: Item) => HeapPlace,
): Heap<Item> {
  const items: Item[] = [];
  const state: State<Item> = { items, before, placeOf };
  const heap = {
    size: 0,
    first: () => items[0],
    push(item: Item) {
      heap.size += 1;
      siftUp(state, item, items.length);
    },
    remove(item: Item) {
      const place = placeOf(item);
      const { index } = place;
      if (index === -1) return false;
      place.index = -1;
      heap.size -= 1;
      const last = items.pop();
      if (last !== undefined && last !== item) settle(state, last, index);
      return true;
    },
    moved(item: Item) {
      const { index } = placeOf(item);
      if (index !== -1) settle(state, item, index);
    },
  };
  return heap;
}

function put<Item>({ items, placeOf }: State<Item>, item: Item, index: number): void {
  items[index] = item;
  placeOf(item).index = index;
}

function siftUp<Item>(state: State<Item>, item: Item, from: number): void {
  let index = from;
  while (index > 0) {
    const parentIndex = (index - 1) >> 1;
    const parent = state.items[parentIndex];
    if (parent === undefined || !state.before(item, parent)) break;
    put(state, parent, index);
    index = parentIndex;
  }
  put(state, item, index);
}

function siftDown<Item>(state: State<Item>, item: Item, from: number): void {
  const { items, before } = state;
  let index = from;
  for (;;) {
    let childIndex = 2 * index + 1;
    const left = items[childIndex];
    if (left === undefined) break;
    let child = left;
    const right = items[childIndex + 1];
    if (right !== undefined && before(right, left)) {
      child = right;
      childIndex += 1;
    }
    if (!before(child, item)) break;
    put(state, child, index);
    index = childIndex;
  }
  put(state, item, index);
}

function settle<Item>(state: State<Item>, item: Item, index: number): void {
  siftDown(state, item, index);
  if (state.items[index] === item) siftUp(state, item, index);
}
