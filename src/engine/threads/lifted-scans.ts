// Scans that lie at a thread behind another one: they count as waiting, and may be put back to where they were.
import type { Standing, TurnOrder } from './turn-order.js';
import type { Place } from './usage.js';
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

/** Where a scan was that was lifted, and where its account stood. */
interface Lifted<Item> extends Standing {
  readonly place: Place<Item>;
}

export function createLiftedScans<Item extends Origin>(
  scans: WaitingScans<Item>,
  order: TurnOrder<Item>,
): LiftedScans<Item> {
  const lifted = new Map<Item, Lifted<Item>>();

  function take(item: Item): Lifted<Item> | undefined {
    const found = lifted.get(item);
    if (found === undefined) return undefined;
    lifted.delete(item);
    found.place.account.lifted -= 1;
    return found;
  }

  return {
    get size() {
      return lifted.size;
    },
    lift(nowMs) {
      const account = order.first(nowMs);
      if (account === undefined) return undefined;
      const { lackingSinceMs, sequence } = account;
      const place = scans.take(account, nowMs);
      if (place === undefined) return undefined;
      lifted.set(place.item, { place, lackingSinceMs, sequence });
      account.lifted += 1;
      return place.item;
    },
    putBack(item, nowMs) {
      const found = take(item);
      if (found === undefined) throw new Error('This scan was not lifted');
      scans.restore(found.place, found, nowMs);
    },
    settle: (item) => void take(item),
  };
}
