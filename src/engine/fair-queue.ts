// The queue of scans before the threads: fair between accounts by the time they hold threads, small content first within one, bounded.
import { createHeap, type Heap } from './heap.js';

/** Bytes that count as one millisecond of waiting: what a scan thread gets through, roughly. */
const BYTES_PER_MS = 50 * 1024;
/**
 * An account's scans may wait in so many times the places that would be left to others: three quarters of all when it is alone, less
 * the more are taken, and never the last place, unless it has no other.
 */
const SHARE_OF_FREE = 3;
/** What an account has left to others counts for so much later on, at most: about as long as the longest scan. */
const CREDIT_MS = 60_000;
/** Accounts without scans whose debt is remembered. One that is forgotten begins anew. */
const DEBTS_MAX = 1024;

export interface FairQueue<Item extends Origin> {
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
  /** Takes a scan out; false when it isn't there (any more). */
  remove(item: Item): boolean;
  /** Takes out all scans. */
  clear(): Item[];
  /** A scan that need not wait has a thread. */
  begin(account: string, nowMs: number): void;
  /** The thread of one of its scans is free again, or given up. Once for each that has begun. */
  end(account: string, nowMs: number): void;
}

/** Of a scan, as far as the queue has to know it. */
export interface Origin {
  readonly account: string;
  readonly sizeBytes: number;
}

interface Place<Item> {
  readonly item: Item;
  readonly account: Account<Item>;
  readonly dueMs: number;
  readonly sequence: number;
}

interface Account<Item> {
  readonly name: string;
  readonly waiting: Heap<Place<Item>>;
  /** Threads that it has. */
  running: number;
  /** How long it has held threads, all of them added up, as of `settledMs`; above that of others by what it owes them. */
  usedMs: number;
  settledMs: number;
  lackingSinceMs: number;
  /** Orders those who have used the same: who has had its turn goes behind. */
  sequence: number;
}

/**
 * Whose turn it is: the accounts without a thread come first, and of several the one that has used the least. What a scan will cost is
 * not known before, so it is charged while it runs (deficit round robin with the deficit paid afterwards, as of start-time fair
 * queueing: the order is by time used and not by a ring, since those without a thread overtake). An account that comes anew is level
 * with the one that has used the least: nobody saves up by staying away, and what it owed before it left it still owes. When nothing
 * waits or runs all is forgotten.
 *
 * Within an account a scan is due at its arrival plus the time that its size is worth. So a small one passes a large one that came
 * shortly before it, and a large one is passed only by what arrives within that time: its own waiting is its ageing.
 */
export function createFairQueue<Item extends Origin>(limit: number): FairQueue<Item> {
  const places = new Map<Item, Place<Item>>();
  const accounts = new Map<string, Account<Item>>();
  const debts = new Map<string, number>();
  /** Accounts whose scans wait. */
  const turns = createHeap<Account<Item>>(isBefore);
  /** Those of them without a thread. */
  const lacking = createHeap<Account<Item>>((one, other) => one.lackingSinceMs < other.lackingSinceMs);
  /** All accounts with scans, by time used. */
  const active = createHeap<Account<Item>>((one, other) => one.usedMs < other.usedMs);
  /** Nobody who comes has used less. */
  let levelMs = 0;
  let sequence = 0;

  /** Charges what has run since the last time. Others are charged when it matters: what an account has used never gets less. */
  function settle(account: Account<Item>, nowMs: number): void {
    account.usedMs += account.running * Math.max(0, nowMs - account.settledMs);
    account.settledMs = nowMs;
    levelMs = Math.max(levelMs, account.usedMs - CREDIT_MS);
    active.moved(account);
    turns.moved(account);
  }

  /** The first of a heap by time used. No more of its accounts are settled than there are threads. */
  function firstOf(heap: Heap<Account<Item>>, nowMs: number): Account<Item> | undefined {
    for (;;) {
      const first = heap.first();
      if (first === undefined || first.running === 0 || first.settledMs >= nowMs) return first;
      settle(first, nowMs);
    }
  }

  function enter(name: string, nowMs: number): Account<Item> {
    const known = accounts.get(name);
    if (known !== undefined) return known;
    levelMs = Math.max(levelMs, firstOf(active, nowMs)?.usedMs ?? 0);
    const account: Account<Item> = {
      name,
      waiting: createHeap(isDueBefore),
      running: 0,
      usedMs: Math.max(levelMs, debts.get(name) ?? 0),
      settledMs: nowMs,
      lackingSinceMs: nowMs,
      sequence: sequence++,
    };
    debts.delete(name);
    accounts.set(name, account);
    active.push(account);
    return account;
  }

  /** Forgets an account that has no scans, but for what it owes. */
  function leave(account: Account<Item>): void {
    if (account.running > 0 || account.waiting.size > 0) return;
    accounts.delete(account.name);
    active.remove(account);
    if (accounts.size === 0) {
      debts.clear();
      levelMs = 0;
    } else if (account.usedMs > levelMs) {
      const [oldest] = debts.size >= DEBTS_MAX ? debts.keys() : [];
      if (oldest !== undefined) debts.delete(oldest);
      debts.set(account.name, account.usedMs);
    }
  }

  function takeOut(place: Place<Item>): void {
    const { account, item } = place;
    places.delete(item);
    account.waiting.remove(place);
    if (account.waiting.size > 0) return;
    turns.remove(account);
    lacking.remove(account);
  }

  function beginOf(account: Account<Item>, nowMs: number): void {
    settle(account, nowMs);
    account.running += 1;
    account.sequence = sequence++;
    turns.moved(account);
    lacking.remove(account);
  }

  function shiftOf(account: Account<Item> | undefined, nowMs: number): Item | undefined {
    const place = account?.waiting.first();
    if (account === undefined || place === undefined) return undefined;
    takeOut(place);
    beginOf(account, nowMs);
    return place.item;
  }

  function addTo(account: Account<Item>, place: Place<Item>, nowMs: number): void {
    account.waiting.push(place);
    places.set(place.item, place);
    if (account.waiting.size > 1) return;
    settle(account, nowMs);
    account.usedMs = Math.max(account.usedMs, levelMs);
    account.sequence = sequence++;
    active.moved(account);
    turns.push(account);
    if (account.running === 0) lack(account, nowMs);
  }

  function lack(account: Account<Item>, nowMs: number): void {
    account.lackingSinceMs = nowMs;
    lacking.push(account);
  }

  function remove(item: Item): boolean {
    const place = places.get(item);
    if (place === undefined) return false;
    takeOut(place);
    leave(place.account);
    return true;
  }

  return {
    get size() {
      return places.size;
    },
    get accountsWaiting() {
      return turns.size;
    },
    get accountsActive() {
      return accounts.size;
    },
    get lackingSinceMs() {
      return lacking.first()?.lackingSinceMs ?? null;
    },
    push(item, nowMs) {
      const { account: name, sizeBytes } = item;
      const left = limit - places.size - 1;
      if (left < 0) return 'full';
      const own = (accounts.get(name)?.waiting.size ?? 0) + 1;
      if (own > 1 && own > SHARE_OF_FREE * left) return 'beyondShare';
      const account = enter(name, nowMs);
      const place = { item, account, dueMs: nowMs + sizeBytes / BYTES_PER_MS, sequence: sequence++ };
      addTo(account, place, nowMs);
      return null;
    },
    shift: (nowMs) => shiftOf(firstOf(turns, nowMs), nowMs),
    shiftLacking(sinceMs, nowMs) {
      const first = lacking.first();
      return first === undefined || first.lackingSinceMs > sinceMs ? undefined : shiftOf(first, nowMs);
    },
    remove,
    clear() {
      const items = [...places.keys()];
      for (const item of items) remove(item);
      return items;
    },
    begin: (account, nowMs) => beginOf(enter(account, nowMs), nowMs),
    end(name, nowMs) {
      const account = accounts.get(name);
      if (account === undefined || account.running === 0) throw new Error('This account has no scan at a thread');
      settle(account, nowMs);
      account.running -= 1;
      turns.moved(account);
      if (account.running === 0 && account.waiting.size > 0) lack(account, nowMs);
      leave(account);
    },
  };
}

function isBefore<Item>(one: Account<Item>, other: Account<Item>): boolean {
  if (one.running > 0 !== other.running > 0) return one.running === 0;
  return one.usedMs < other.usedMs || (one.usedMs === other.usedMs && one.sequence < other.sequence);
}

function isDueBefore<Item>(one: Place<Item>, other: Place<Item>): boolean {
  return one.dueMs < other.dueMs || (one.dueMs === other.dueMs && one.sequence < other.sequence);
}
