// Accounts with scans that wait or run, and how long each has held threads. An account that comes anew starts level with the one that has used the least.
import type { InLine } from '../../waiting/line.js';
import { createHeap, type Heap, type HeapPlace, newHeapPlace } from './heap.js';

/** What an account has left to others counts for so much later on, at most: about as long as the longest scan. */
const CREDIT_MS = 60_000;
/** Accounts without scans whose debt is remembered. One that is forgotten begins anew. */
const DEBTS_MAX = 1024;

/** A scan that waits, or is lifted. */
export interface Place<Item> extends InLine<Place<Item>> {
  readonly item: Item;
  readonly account: Account<Item>;
  readonly dueMs: number;
  readonly sequence: number;
  /** Among those of its account that wait. */
  readonly inHeap: HeapPlace;
  /** Null: it isn't lifted. */
  lifted: Standing | null;
}

/** Where an account stands in the order. */
export interface Standing {
  readonly lackingSinceMs: number;
  readonly sequence: number;
}

export interface Account<Item> {
  readonly name: string;
  readonly waiting: Heap<Place<Item>>;
  /** Scans that are lifted. */
  lifted: number;
  /** Threads that it has. */
  running: number;
  /** How long it has held threads, all of them added up, as of `chargedMs`; above that of others by what it owes them. */
  usedMs: number;
  chargedMs: number;
  lackingSinceMs: number;
  /** Orders those who have used the same: an account that has had its turn goes behind. */
  sequence: number;
  /** In the heaps of all accounts, those whose scans wait, and those of them that have no thread. */
  readonly inUsed: HeapPlace;
  readonly inTurns: HeapPlace;
  readonly inLacking: HeapPlace;
}

export interface Usage<Item> {
  /** Accounts with scans. */
  readonly accounts: number;
  find(name: string): Account<Item> | undefined;
  /** The account, known or new. */
  enter(name: string, nowMs: number): Account<Item>;
  /** Forgets an account that has no scans, except for what it owes. */
  leave(account: Account<Item>): void;
  /** Adds what its threads have run since the last time. Other accounts are charged when it matters: what an account has used never gets less. */
  charge(account: Account<Item>, nowMs: number): void;
  /** Its scans wait again: what it has saved up meanwhile is lost. */
  level(account: Account<Item>): void;
  /** The first of an order by time used, charged. No more of its accounts are charged than there are threads. */
  firstCharged(first: () => Account<Item> | undefined, nowMs: number): Account<Item> | undefined;
}

/** `onCharged`: what the account has used has changed. */
export function createUsage<Item>(onCharged: (account: Account<Item>) => void): Usage<Item> {
  const accounts = new Map<string, Account<Item>>();
  const byUsed = createHeap<Account<Item>>(
    (one, other) => one.usedMs < other.usedMs,
    ({ inUsed }) => inUsed,
  );
  const debts = createDebts();
  /** An account that comes has used so much at least. */
  let levelMs = 0;

  function charge(account: Account<Item>, nowMs: number): void {
    account.usedMs += account.running * Math.max(0, nowMs - account.chargedMs);
    account.chargedMs = nowMs;
    levelMs = Math.max(levelMs, account.usedMs - CREDIT_MS);
    byUsed.moved(account);
    onCharged(account);
  }

  function firstCharged(first: () => Account<Item> | undefined, nowMs: number): Account<Item> | undefined {
    for (;;) {
      const account = first();
      if (account === undefined || account.running === 0 || account.chargedMs >= nowMs) return account;
      charge(account, nowMs);
    }
  }

  return {
    get accounts() {
      return accounts.size;
    },
    find: (name) => accounts.get(name),
    enter(name, nowMs) {
      const known = accounts.get(name);
      if (known !== undefined) return known;
      levelMs = Math.max(levelMs, firstCharged(byUsed.first, nowMs)?.usedMs ?? 0);
      const account = createAccount<Item>(name, Math.max(levelMs, debts.take(name)), nowMs);
      accounts.set(name, account);
      byUsed.push(account);
      return account;
    },
    leave(account) {
      if (account.running > 0 || account.waiting.size > 0) return;
      accounts.delete(account.name);
      byUsed.remove(account);
      if (accounts.size === 0) {
        debts.clear();
        levelMs = 0;
      } else if (account.usedMs > levelMs) debts.remember(account.name, account.usedMs);
    },
    charge,
    level(account) {
      account.usedMs = Math.max(account.usedMs, levelMs);
      byUsed.moved(account);
    },
    firstCharged,
  };
}

function createAccount<Item>(name: string, usedMs: number, nowMs: number): Account<Item> {
  return {
    name,
    waiting: createHeap(isDueBefore, ({ inHeap }) => inHeap),
    lifted: 0,
    running: 0,
    usedMs,
    chargedMs: nowMs,
    lackingSinceMs: nowMs,
    sequence: 0,
    inUsed: newHeapPlace(),
    inTurns: newHeapPlace(),
    inLacking: newHeapPlace(),
  };
}

/** What accounts have used that have no scans now; bounded, the oldest is forgotten first. */
function createDebts() {
  const debts = new Map<string, number>();
  return {
    remember(name: string, usedMs: number): void {
      const [oldest] = debts.size >= DEBTS_MAX ? debts.keys() : [];
      if (oldest !== undefined) debts.delete(oldest);
      debts.set(name, usedMs);
    },
    /** The debt of an account that comes back: 0 where none is known. */
    take(name: string): number {
      const usedMs = debts.get(name) ?? 0;
      debts.delete(name);
      return usedMs;
    },
    clear(): void {
      // Even an empty Map gets another table.
      if (debts.size > 0) debts.clear();
    },
  };
}

function isDueBefore<Item>(one: Place<Item>, other: Place<Item>): boolean {
  return one.dueMs < other.dueMs || (one.dueMs === other.dueMs && one.sequence < other.sequence);
}
