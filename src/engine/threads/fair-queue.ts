// The queue of scans before the threads: a queue for each account, the account that has used least is next, small content first within one; bounded.
import { type InLine, Line } from '../../waiting/line.js';
import type { ThreadScan } from './thread-scan.js';

/**
 * An account may fill so many times the places that it leaves to others, of the queue and of the threads beside the set. That is three
 * quarters of all when it is alone, and less when more are taken. It never gets the last place, unless it has no other.
 */
const SHARE_OF_FREE = 3;
/** What an account has left to others counts for so much later on, at most: about as long as the longest scan. */
const CREDIT_MS = 60_000;
/** Accounts that are remembered without scans, for what they owe. One that is forgotten begins anew. */
const IDLE_ACCOUNTS_MAX = 1024;
/** Bytes that count as one millisecond of waiting: what a scan thread gets through, roughly. */
const BYTES_PER_MS = 50 * 1024;
/** An account's scans wait in lines by size, up to these sizes; a larger one waits in the last line. */
const SMALL_BYTES = 64 * 1024;
export const MIDDLE_BYTES = 1024 * 1024;

/** A scan that a thread has been at for so long is a long one: nothing lies ready behind it, and it isn't waited for. */
export const LONG_MS = 5;
/** Scans of these bytes take a millisecond at the most, with few exceptions. */
const SLOW_BYTES_PER_MS = 12.5 * 1024;
/** Whatever its size, no scan waits longer for a thread beside the set, if there is one for it. */
const PATIENCE_MAX_MS = 200;

/** How long threads have been at their scans before one beside the set takes this one: longer than it will take itself. */
function patienceMs(sizeBytes: number): number {
  return Math.min(LONG_MS + Math.floor(sizeBytes / SLOW_BYTES_PER_MS), PATIENCE_MAX_MS);
}

/** What an account has waiting and running, and how long it has held threads. */
export class Account implements InLine<Account> {
  readonly name: string;
  /** Scans of about one size each, in the order in which they came. */
  readonly small = new Line<ThreadScan>();
  readonly middle = new Line<ThreadScan>();
  readonly large = new Line<ThreadScan>();
  /** Scans in its lines. */
  waiting = 0;
  /** Scans that lie at a thread behind another one. */
  ahead = 0;
  /** Threads that it has, and places behind a scan at one. */
  running = 0;
  /** How long it has held threads, all of them added up, as of `chargedMs`; above that of others by what it owes them. */
  usedMs = 0;
  chargedMs = 0;
  /** What it has used counts within one era: from the first scan until nobody has any. */
  era = -1;
  /** Orders those who have used the same: an account that has had its turn goes behind. */
  sequence = 0;
  /** In the line of accounts that have scans. */
  before: Account | null = null;
  behind: Account | null = null;

  constructor(name: string) {
    this.name = name;
  }

  lineOf({ sizeBytes }: ThreadScan): Line<ThreadScan> {
    if (sizeBytes <= SMALL_BYTES) return this.small;
    return sizeBytes <= MIDDLE_BYTES ? this.middle : this.large;
  }

  /**
   * A scan is due at its arrival plus the time that its size is worth. So a small one passes a large one that came shortly before it. Only
   * scans that arrive within that time pass a large one: it can't wait for ever.
   */
  firstDue(): ThreadScan | null {
    const { small, middle, large } = this;
    if (middle.first === null && large.first === null) return small.first;
    return earlier(earlier(small.first, middle.first), large.first);
  }

  /** For a thread beside the set: the smallest, once the others have been at theirs for `spanMs`. A large one only where the account has no thread. */
  smallest(spanMs: number): ThreadScan | null {
    const small = this.small.first;
    if (small !== null && spanMs >= patienceMs(small.sizeBytes)) return small;
    const middle = this.middle.first;
    if (middle !== null && spanMs >= patienceMs(middle.sizeBytes)) return middle;
    const large = this.large.first;
    return large !== null && this.running === 0 && spanMs >= patienceMs(large.sizeBytes) ? large : null;
  }
}

function earlier(one: ThreadScan | null, other: ThreadScan | null): ThreadScan | null {
  if (one === null || other === null) return one ?? other;
  return one.dueMs <= other.dueMs ? one : other;
}

/** What there is of threads beside the set when one is to be taken. */
export interface StandInRoom {
  /** As many threads as the set has, at least, have been at their scans for so long. */
  readonly spanMs: number;
  /** Threads that will be left for others. */
  readonly left: number;
  /** What an account may hold while others have scans. */
  readonly besideOthers: number;
}

/**
 * Accounts without a thread come first, and of several the one that has used the least. The cost of a scan is not known before, so it is
 * charged while the scan runs. That is deficit round robin in which the deficit is paid afterwards. The order is by time used, as in
 * start-time fair queueing, and not by a ring, since accounts without a thread overtake. An account that comes anew starts level with the
 * one that has used the least, so an account can't save up by staying away. It still owes what it owed before it left. When nothing
 * waits or runs, all is forgotten.
 */
export class FairQueue {
  /** Scans that wait; those that lie at a thread aside. */
  size = 0;
  /** Scans that lie at a thread behind another one. */
  ahead = 0;
  /** Some account might be refused. */
  isCrowded = false;
  /** Accounts with scans that wait or run; only the queue writes to it. */
  readonly active = new Line<Account>();
  readonly #limit: number;
  readonly #accounts = new Map<string, Account>();
  /** An account that comes has used so much at least. */
  #levelMs = 0;
  #era = 0;
  #sequence = 0;

  constructor(limit: number) {
    this.#limit = limit;
    this.#count(0, 0);
  }

  /** Why one more scan of the account would not wait now; null: it would. */
  refusal(accountName: string): 'full' | 'beyondShare' | null {
    const left = this.#limit - this.size - this.ahead - 1;
    if (left < 0) return 'full';
    const known = this.#accounts.get(accountName);
    const own = known === undefined ? 1 : known.waiting + known.ahead + 1;
    return own > 1 && own > SHARE_OF_FREE * left ? 'beyondShare' : null;
  }

  /** Null: it waits. */
  push(scan: ThreadScan, nowMs: number): 'full' | 'beyondShare' | null {
    const refusal = this.refusal(scan.account);
    if (refusal !== null) return refusal;
    const account = this.#enter(scan.account, nowMs);
    if (account.waiting === 0) {
      // What it has saved up meanwhile is lost.
      account.usedMs = Math.max(account.usedMs, this.#levelMs);
      account.sequence = this.#sequence++;
    }
    scan.charged = account;
    scan.state = 'waiting';
    scan.dueMs = nowMs + scan.sizeBytes / BYTES_PER_MS;
    account.lineOf(scan).add(scan);
    account.waiting += 1;
    this.#count(1, 0);
    return null;
  }

  /** A scan that need not wait has a thread. */
  begin(scan: ThreadScan, nowMs: number): void {
    const account = this.#enter(scan.account, nowMs);
    scan.charged = account;
    account.running += 1;
    account.sequence = this.#sequence++;
  }

  /** The scan whose turn it is, taken out; its account has a thread from now on. */
  shift(nowMs: number): ThreadScan | null {
    let next: Account | null = null;
    for (let account = this.active.first; account !== null; account = account.behind) {
      if (account.waiting === 0) continue;
      this.#charge(account, nowMs);
      if (next === null || isBefore(account, next)) next = account;
    }
    const scan = next?.firstDue() ?? null;
    if (next !== null && scan !== null) this.#take(scan, next);
    return scan;
  }

  /** The scan that a thread beside the set is for; null: each can wait. It still waits. */
  smallest({ spanMs, left, besideOthers }: StandInRoom, nowMs: number): ThreadScan | null {
    const share = SHARE_OF_FREE * left;
    const most = Math.max(1, this.active.size > 1 ? Math.min(besideOthers, share) : share);
    let next: Account | null = null;
    let smallest: ThreadScan | null = null;
    for (let account = this.active.first; account !== null; account = account.behind) {
      if (account.waiting === 0 || account.running >= most) continue;
      const scan = account.smallest(spanMs);
      if (scan === null) continue;
      this.#charge(account, nowMs);
      if (next !== null && !isBefore(account, next)) continue;
      next = account;
      smallest = scan;
    }
    return smallest;
  }

  /** Takes out what `smallest` has found; its account has a thread from now on. */
  take(scan: ThreadScan): void {
    this.#take(scan, this.#accountOf(scan));
  }

  /** One that was taken out lies at a thread behind another scan: it still counts as waiting. */
  layAhead(scan: ThreadScan): void {
    const account = this.#accountOf(scan);
    scan.state = 'ahead';
    account.ahead += 1;
    this.#count(0, 1);
  }

  /** One that lay ahead is at the thread. */
  settle(scan: ThreadScan): void {
    this.#accountOf(scan).ahead -= 1;
    this.#count(0, -1);
  }

  /** One that lay ahead has no thread after all, and waits where it waited before. */
  putBack(scan: ThreadScan, nowMs: number): void {
    const account = this.#accountOf(scan);
    this.settle(scan);
    this.#charge(account, nowMs);
    account.running -= 1;
    scan.state = 'waiting';
    account.lineOf(scan).addFirst(scan);
    account.waiting += 1;
    this.#count(1, 0);
  }

  /** Takes out a scan that waits, for good. */
  remove(scan: ThreadScan): void {
    const account = this.#accountOf(scan);
    this.#unlink(scan, account);
    scan.charged = null;
    this.#leave(account);
  }

  /** All that wait, the account that came first before the others. */
  scans(): ThreadScan[] {
    const scans: ThreadScan[] = [];
    for (let account = this.active.first; account !== null; account = account.behind) {
      for (const line of [account.small, account.middle, account.large]) {
        for (let scan = line.first; scan !== null; scan = scan.behind) scans.push(scan);
      }
    }
    return scans;
  }

  /** The thread of a scan is free again, or given up. Once for each that has begun. */
  end(scan: ThreadScan, nowMs: number): void {
    const account = this.#accountOf(scan);
    this.#charge(account, nowMs);
    account.running -= 1;
    scan.charged = null;
    this.#leave(account);
  }

  /** Accounts that are remembered, for their scans or for what they owe. */
  get accountsKnown(): number {
    return this.#accounts.size;
  }

  accountsWaiting(): string[] {
    const names: string[] = [];
    for (let account = this.active.first; account !== null; account = account.behind) {
      if (account.waiting + account.ahead > 0) names.push(account.name);
    }
    return names;
  }

  #count(waiting: number, ahead: number): void {
    this.size += waiting;
    this.ahead += ahead;
    const taken = this.size + this.ahead + 1;
    this.isCrowded = taken > SHARE_OF_FREE * (this.#limit - taken);
  }

  /** The account has been charged until now. */
  #take(scan: ThreadScan, account: Account): void {
    this.#unlink(scan, account);
    account.running += 1;
    account.sequence = this.#sequence++;
  }

  #unlink(scan: ThreadScan, account: Account): void {
    account.lineOf(scan).remove(scan);
    scan.state = 'idle';
    account.waiting -= 1;
    this.#count(-1, 0);
  }

  /** Adds what its threads have run since the last time. Others are charged when it matters. */
  #charge(account: Account, nowMs: number): void {
    account.usedMs += account.running * Math.max(0, nowMs - account.chargedMs);
    account.chargedMs = nowMs;
    this.#levelMs = Math.max(this.#levelMs, account.usedMs - CREDIT_MS);
  }

  /** The account, charged until now, which has scans from now on. */
  #enter(name: string, nowMs: number): Account {
    const account = this.#accounts.get(name) ?? this.#open(name);
    if (account.running > 0 || account.waiting > 0) {
      this.#charge(account, nowMs);
      return account;
    }
    let leastMs = Number.POSITIVE_INFINITY;
    for (let other = this.active.first; other !== null; other = other.behind) {
      this.#charge(other, nowMs);
      leastMs = Math.min(leastMs, other.usedMs);
    }
    if (leastMs < Number.POSITIVE_INFINITY) this.#levelMs = Math.max(this.#levelMs, leastMs);
    account.usedMs = account.era === this.#era ? Math.max(this.#levelMs, account.usedMs) : this.#levelMs;
    account.era = this.#era;
    account.chargedMs = nowMs;
    this.active.add(account);
    return account;
  }

  #open(name: string): Account {
    if (this.#accounts.size >= this.active.size + IDLE_ACCOUNTS_MAX) this.#forget();
    const account = new Account(name);
    this.#accounts.set(name, account);
    return account;
  }

  /** Those without scans that owe nothing; where all owe, the older half. */
  #forget(): void {
    const idle = [...this.#accounts.values()].filter((account) => !this.active.has(account));
    const clear = idle.filter(({ era, usedMs }) => era !== this.#era || usedMs <= this.#levelMs);
    const gone = clear.length > 0 ? clear : idle.slice(0, Math.ceil(idle.length / 2));
    for (const { name } of gone) this.#accounts.delete(name);
  }

  #accountOf({ charged }: ThreadScan): Account {
    if (!(charged instanceof Account)) throw new Error('This scan neither waits nor runs');
    return charged;
  }

  #leave(account: Account): void {
    if (account.running > 0 || account.waiting > 0) return;
    this.active.remove(account);
    if (this.active.size > 0) return;
    this.#era += 1;
    this.#levelMs = 0;
  }
}

function isBefore(one: Account, other: Account): boolean {
  if (one.running > 0 !== other.running > 0) return one.running === 0;
  return one.usedMs < other.usedMs || (one.usedMs === other.usedMs && one.sequence < other.sequence);
}
