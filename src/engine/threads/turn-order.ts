// Which account has the next turn, of those whose scans wait: first the ones without a thread, then the one that has used the least time.
import { createHeap } from './heap.js';
import type { Account, Standing, Usage } from './usage.js';

export interface TurnOrder<Item> {
  /** Accounts whose scans wait. */
  readonly size: number;
  first(nowMs: number): Account<Item> | undefined;
  /** The account that has waited longest without any thread. */
  firstLacking(): Account<Item> | undefined;
  /** The first of its scans waits. */
  add(account: Account<Item>, nowMs: number): void;
  /** No scan of it waits any more. */
  remove(account: Account<Item>): void;
  /** What it has used has changed. */
  moved(account: Account<Item>): void;
  /** It has one more thread, and comes behind those that have used as much. */
  begin(account: Account<Item>, nowMs: number): void;
  /** It has one thread less. */
  end(account: Account<Item>, nowMs: number): void;
  /** Its last `begin` did not count: it stands where it stood before. */
  takeBack(account: Account<Item>, stood: Standing, nowMs: number): void;
}

export function createTurnOrder<Item>(usage: Usage<Item>): TurnOrder<Item> {
  const turns = createHeap<Account<Item>>(isBefore, ({ inTurns }) => inTurns);
  const lacking = createHeap<Account<Item>>(
    (one, other) => one.lackingSinceMs < other.lackingSinceMs,
    ({ inLacking }) => inLacking,
  );
  let sequence = 0;

  function lack(account: Account<Item>, sinceMs: number): void {
    if (account.running > 0 || account.waiting.size === 0) return;
    account.lackingSinceMs = sinceMs;
    lacking.push(account);
  }

  return {
    get size() {
      return turns.size;
    },
    first: (nowMs) => usage.firstCharged(turns.first, nowMs),
    firstLacking: lacking.first,
    add(account, nowMs) {
      usage.charge(account, nowMs);
      usage.level(account);
      account.sequence = sequence++;
      turns.push(account);
      lack(account, nowMs);
    },
    remove(account) {
      turns.remove(account);
      lacking.remove(account);
    },
    moved: turns.moved,
    begin(account, nowMs) {
      usage.charge(account, nowMs);
      account.running += 1;
      account.sequence = sequence++;
      turns.moved(account);
      lacking.remove(account);
    },
    end(account, nowMs) {
      usage.charge(account, nowMs);
      account.running -= 1;
      turns.moved(account);
      lack(account, nowMs);
    },
    takeBack(account, stood, nowMs) {
      usage.charge(account, nowMs);
      account.running -= 1;
      account.sequence = stood.sequence;
      if (account.waiting.size === 1) turns.push(account);
      else turns.moved(account);
      lack(account, stood.lackingSinceMs);
    },
  };
}

function isBefore<Item>(one: Account<Item>, other: Account<Item>): boolean {
  if (one.running > 0 !== other.running > 0) return one.running === 0;
  return one.usedMs < other.usedMs || (one.usedMs === other.usedMs && one.sequence < other.sequence);
}
