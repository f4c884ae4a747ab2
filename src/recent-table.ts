// A table of the entries that were used last, which takes memory as it fills.
import { LRUCache } from 'lru-cache';

export type RecentTable<Value extends object | number> = LRUCache<string, Value>;

/** For the look-ups of each scan: lru-cache makes an object of options where it is given none. */
export const USUAL = {};

/**
 * Of more than `entriesMax` entries the one that was used longest ago goes. lru-cache's own bound by number would take 28 bytes for each of them
 * before the first one is there; its bound by size takes none.
 */
export function recentTable<Value extends object | number>(entriesMax: number): RecentTable<Value> {
  return new LRUCache<string, Value>({ maxSize: entriesMax, sizeCalculation: () => 1 });
}
