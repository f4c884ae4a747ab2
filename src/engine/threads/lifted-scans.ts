// Scans that lie at a thread behind another one: they count as waiting, and may be put back to where they were.
import type { TurnOrder } from './turn-order.js';
import type { Place, Standing } from './usage.js';
import type { Origin, WaitingScans } from './waiting-scans.js';

export interface LiftedScans<Item> {
  readonly size: number;
  /** Takes out the scan whose turn it is. */
  lift(nowMs: number): Item | undefined;
  /** It has no thread after all. */
  putBack(item: Item, nowMs: number): void;
  /** It has begun. */
  settle(item: Item): void;
}

export function createLiftedScans<Item extends Origin<Item>>(
  scans: WaitingScans<Item>,
  order: TurnOrder<Item>,
): LiftedScans<Item> {
  let size = 0;

  /** Null: it isn't lifted. */
  function take(item: Item): { readonly place: Place<Item>; readonly stood: Standing } | null {
    const { place } = item;
    if (place === null || place.lifted === null) return null;
    const stood = place.lifted;
    item.place = null;
    place.lifted = null;
    place.account.lifted -= 1;
    size -= 1;
    return { place, stood };
  }

  return {
    get size() {
      return size;
    },
    lift(nowMs) {
      const account = order.first(nowMs);
      if (account === undefined) return undefined;
      const { lackingSinceMs, sequence } = account;
      const place = scans.take(account, nowMs);
      if (place === undefined) return undefined;
      place.item.place = place;
      place.lifted = { lackingSinceMs, sequence };
      account.lifted += 1;
      size += 1;
      return place.item;
    },
    putBack(item, nowMs) {
      const found = take(item);
      if (found === null) throw new Error('This scan was not lifted');
      scans.restore(found.place, found.stood, nowMs);
    },
    settle: (item) => void take(item),
  };
}
