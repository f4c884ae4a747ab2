// The scans that wait, each in the line of its account: in, out to a thread, and back from one that lay behind another scan.
import { createLine } from '../../waiting/line.js';
import { newHeapPlace } from './heap.js';
import type { TurnOrder } from './turn-order.js';
import type { Account, Place, Standing, Usage } from './usage.js';

/** Bytes that count as one millisecond of waiting: what a scan thread gets through, roughly. */
const BYTES_PER_MS = 50 * 1024;

/** Of a scan, as far as the queue has to know it. */
export interface Origin<Item> {
  readonly account: string;
  readonly sizeBytes: number;
  /** Null: it is not in the queue. Only the queue writes to it. */
  place: Place<Item> | null;
}

export interface WaitingScans<Item> {
  readonly size: number;
  add(item: Item, account: Account<Item>, nowMs: number): void;
  /** Takes out the first scan of the account, which has one more thread from now on. */
  take(account: Account<Item> | undefined, nowMs: number): Place<Item> | undefined;
  /** Puts one that was taken back to where it was, and its account where it stood. */
  restore(place: Place<Item>, stood: Standing, nowMs: number): void;
  /** False when it doesn't wait. */
  remove(item: Item): boolean;
  items(): Item[];
}

/**
 * Within an account a scan is due at its arrival plus the time that its size is worth. So a small one passes a large one that came
 * shortly before it. Only scans that arrive within that time pass a large one: it can't wait for ever.
 */
export function createWaitingScans<Item extends Origin<Item>>(
  usage: Usage<Item>,
  order: TurnOrder<Item>,
): WaitingScans<Item> {
  const places = createLine<Place<Item>>();
  let sequence = 0;

  function put(place: Place<Item>): void {
    place.item.place = place;
    places.add(place);
    place.account.waiting.push(place);
  }

  function takeOut(place: Place<Item>): void {
    const { account, item } = place;
    item.place = null;
    places.remove(place);
    account.waiting.remove(place);
    if (account.waiting.size === 0) order.remove(account);
  }

  return {
    get size() {
      return places.size;
    },
    add(item, account, nowMs) {
      put({
        item,
        account,
        dueMs: nowMs + item.sizeBytes / BYTES_PER_MS,
        sequence: sequence++,
        inHeap: newHeapPlace(),
        lifted: null,
        before: null,
        behind: null,
      });
      if (account.waiting.size === 1) order.add(account, nowMs);
    },
    take(account, nowMs) {
      const place = account?.waiting.first();
      if (account === undefined || place === undefined) return undefined;
      takeOut(place);
      order.begin(account, nowMs);
      return place;
    },
    restore(place, stood, nowMs) {
      put(place);
      order.takeBack(place.account, stood, nowMs);
    },
    remove(item) {
      const { place } = item;
      if (place === null || place.lifted !== null) return false;
      takeOut(place);
      usage.leave(place.account);
      return true;
    },
    items() {
      const items: Item[] = [];
      for (let place = places.first(); place !== null; place = place.behind) items.push(place.item);
      return items;
    },
  };
}
