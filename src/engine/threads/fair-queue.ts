// The queue of scans before the threads: fair between accounts by the time they hold threads, small content first within one, bounded.
import { createLiftedScans } from './lifted-scans.js';
import { createTurnOrder } from './turn-order.js';
import { createUsage } from './usage.js';
import { createWaitingScans, type Origin } from './waiting-scans.js';

/**
 * An account may fill so many times the places that it leaves to others. That is three quarters of all when it is alone, and less when
 * more are taken. It never gets the last place, unless it has no other.
 */
const SHARE_OF_FREE = 3;

export interface FairQueue<Item extends Origin<Item>> {
  /** Scans that wait. */
  readonly size: number;
  /** Accounts whose scans wait. */
  readonly accountsWaiting: number;
  /** Accounts with scans that wait or run. */
  readonly accountsActive: number;
  /** Since when the account that has waited longest has had no thread at all; null: each that waits has one. */
  readonly lackingSinceMs: number | null;
  /** Null: it waits. */
  push(item: Item, nowMs: number): 'full' | 'beyondShare' | null;
  /** The scan whose turn it is, taken out; its account has a thread from now on. */
  shift(nowMs: number): Item | undefined;
  /** The same for the account that has lacked a thread longest, if that began at `sinceMs` or before. */
  shiftLacking(sinceMs: number, nowMs: number): Item | undefined;
  /** As `shift`, of a scan that still waits: behind another one at a thread. It counts against the limit, and may be put back. */
  lift(nowMs: number): Item | undefined;
  /** Puts a lifted scan back to where it was: it has no thread. */
  putBack(item: Item, nowMs: number): void;
  /** A lifted scan has begun. */
  settled(item: Item): void;
  /** Scans of the account wait, those that are lifted aside. */
  hasWaiting(account: string): boolean;
  /** The account has scans that wait, and no thread. */
  lacks(account: string): boolean;
  /** Takes a scan out; false when it isn't there (any more). */
  remove(item: Item): boolean;
  /** Takes out all scans. */
  clear(): Item[];
  /** A scan that need not wait has a thread. */
  begin(account: string, nowMs: number): void;
  /** The thread of one of its scans is free again, or given up. Once for each that has begun. */
  end(account: string, nowMs: number): void;
}

/**
 * Accounts without a thread come first, and of several the one that has used the least. The cost of a scan is not known before, so it is
 * charged while the scan runs. That is deficit round robin in which the deficit is paid afterwards. The order is by time used, as in
 * start-time fair queueing, and not by a ring, since accounts without a thread overtake. An account that comes anew starts level with the
 * one that has used the least, so an account can't save up by staying away. It still owes what it owed before it left. When nothing
 * waits or runs, all is forgotten.
 */
export function createFairQueue<Item extends Origin<Item>>(limit: number): FairQueue<Item> {
  const usage = createUsage<Item>((account) => order.moved(account));
  const order = createTurnOrder<Item>(usage);
  const scans = createWaitingScans<Item>(usage, order);
  const lifted = createLiftedScans<Item>(scans, order);

  function refusalOf(name: string): 'full' | 'beyondShare' | null {
    const left = limit - scans.size - lifted.size - 1;
    if (left < 0) return 'full';
    const known = usage.find(name);
    const own = known === undefined ? 1 : known.waiting.size + known.lifted + 1;
    return own > 1 && own > SHARE_OF_FREE * left ? 'beyondShare' : null;
  }

  return {
    get size() {
      return scans.size;
    },
    get accountsWaiting() {
      return order.size;
    },
    get accountsActive() {
      return usage.accounts;
    },
    get lackingSinceMs() {
      return order.firstLacking()?.lackingSinceMs ?? null;
    },
    push(item, nowMs) {
      const refusal = refusalOf(item.account);
      if (refusal === null) scans.add(item, usage.enter(item.account, nowMs), nowMs);
      return refusal;
    },
    shift: (nowMs) => scans.take(order.first(nowMs), nowMs)?.item,
    shiftLacking(sinceMs, nowMs) {
      const first = order.firstLacking();
      return first === undefined || first.lackingSinceMs > sinceMs ? undefined : scans.take(first, nowMs)?.item;
    },
    lift: lifted.lift,
    putBack: lifted.putBack,
    settled: lifted.settle,
    hasWaiting: (name) => (usage.find(name)?.waiting.size ?? 0) > 0,
    lacks(name) {
      const account = usage.find(name);
      return account !== undefined && account.running === 0 && account.waiting.size > 0;
    },
    remove: scans.remove,
    clear() {
      const items = scans.items();
      for (const item of items) scans.remove(item);
      return items;
    },
    begin: (name, nowMs) => order.begin(usage.enter(name, nowMs), nowMs),
    end(name, nowMs) {
      const account = usage.find(name);
      if (account === undefined || account.running === 0) throw new Error('This account has no scan at a thread');
      order.end(account, nowMs);
      usage.leave(account);
    },
  };
}
