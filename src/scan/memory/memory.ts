// The memory of contents: lent as bytes arrive, within one budget and fairly between accounts, so that any number of clients stays inside a stated bound.
import { performance } from 'node:perf_hooks';
import { Unavailable } from '../../errors.js';
import { CONTENT_LIMIT_BYTES, SMALL_UPLOAD_BYTES } from '../../limits.js';
import { createLine } from '../../waiting/line.js';
import { type Arena, type Block, blockSize, copyInto, createArena } from './arena.js';
import type { Account, Borrower, Loan } from './loan.js';
import { type Claim, createShares, type Shares } from './shares.js';
import { createWaitingLine, type WaitingLine } from './waiters.js';

/** What one upload has of the memory: nothing at first. */
export interface Lease {
  /** What is lent; growing puts a larger block in its place. Nobody else has it until the release. */
  block(): Block;
  /**
   * Asks for room for so many bytes, of which the block holds the first `usedBytes`; these are in the new block then. True: there is
   * room now. False: the borrower hears of it, and keeps what has arrived until then; it may ask for more meanwhile.
   */
  grow(bytes: number, usedBytes: number): boolean;
  /** The content is whole: it won't grow, and isn't ended for the sake of others any more. */
  seal(): void;
  /** Gives the memory back: nothing writes to it or reads it any more. */
  release(): void;
}

export interface UploadMemory {
  /** `limitBytes`: what the content may have at most, as declared. Nothing is lent for it. */
  open(account: string, limitBytes: number, borrower: Borrower): Lease;
  /** Bytes lent out, and those that have arrived and wait for a buffer. */
  readonly lentBytes: number;
  /** Those of them that wait. */
  readonly waitingBytes: number;
  /** Uploads that wait for memory. */
  readonly waiting: number;
  /** Accounts that have any. */
  readonly accounts: number;
  /** What the account that has most has. */
  readonly largestAccountBytes: number;
  /** Uploads that were ended because another account waited for what they held. */
  readonly ended: number;
}

export interface MemoryOptions {
  readonly budgetBytes: number;
  /** What one account leaves to others, as a share of the budget. */
  readonly reserveShare: number;
  /** How long an upload may wait, all its waits together. */
  readonly waitMs: number;
  /** What the budget is for, in the words of the refusal. */
  readonly use: 'uploads' | 'downloads';
  /** Milliseconds of any clock; default: that of the process. */
  readonly now?: () => number;
}

const NOTHING: Block = new Uint8Array(new SharedArrayBuffer(0));
/** Declared sizes up to this are lent at once: as much may lie in the socket. */
const AT_ONCE_BYTES = 64 * 1024;
/** While there is plenty, a block has room for so many times what has arrived: each growth is a copy. */
const GENEROUS = 4;
/** For so long an upload is expected to need all that it declared; afterwards, as much again as it has by then. */
const QUICK_MS = 2_000;

/** The memory of one use; only the functions of this file write to it. */
interface Lender {
  readonly shares: Shares;
  readonly arena: Arena;
  readonly accounts: Map<string, Account>;
  /** Those that have something of the finishing room. */
  readonly finishers: Set<Loan>;
  readonly line: WaitingLine;
  readonly now: () => number;
  readonly waitMs: number;
  sharedBytes: number;
  finishingBytes: number;
  waitingBytes: number;
  begun: number;
}

export function createUploadMemory(options: MemoryOptions): UploadMemory {
  const { budgetBytes, reserveShare, waitMs, use, now = () => performance.now() } = options;
  const accounts = new Map<string, Account>();
  const lender: Lender = {
    shares: createShares(budgetBytes, reserveShare),
    arena: createArena(budgetBytes, () => lentBytes(lender)),
    accounts,
    finishers: new Set(),
    line: createWaitingLine({
      now,
      tooLong: new Unavailable(use === 'uploads' ? 'uploadsBusy' : 'downloadsBusy'),
      accounts,
      tryGrow: (loan) => tryGrow(lender, loan),
      tryFinish: (loan) => tryFinish(lender, loan),
      isHeldUp: (loan) => isHeldUp(lender, loan),
      stepOf,
      relabel: () => relabel(lender),
    }),
    now,
    waitMs,
    sharedBytes: 0,
    finishingBytes: 0,
    waitingBytes: 0,
    begun: 0,
  };
  return {
    open: (id, limitBytes, borrower) => openLease(lender, { id, limitBytes, borrower }),
    get lentBytes() {
      return lentBytes(lender);
    },
    get waitingBytes() {
      return lender.waitingBytes;
    },
    get waiting() {
      return lender.line.length;
    },
    get accounts() {
      return accounts.size;
    },
    get largestAccountBytes() {
      let most = 0;
      for (const account of accounts.values()) most = Math.max(most, account.sharedBytes + account.finishingBytes);
      return most;
    },
    get ended() {
      return lender.line.ended;
    },
  };
}

function lentBytes({ sharedBytes, finishingBytes }: Lender): number {
  return sharedBytes + finishingBytes;
}

function claimOf({ sharedBytes }: Lender, { account, isSmall }: Loan, extraBytes: number): Claim {
  return { ownBytes: account.sharedBytes, sharedBytes, extraBytes, isSmall };
}

/**
 * What older uploads of the account are expected to need: a younger one that took it would keep them from their end. Small ones
 * have room beside them.
 */
function expectedBefore(lender: Lender, loan: Loan): number {
  if (loan.isSmall) return 0;
  const nowMs = lender.now();
  let bytes = 0;
  for (let older = loan.account.receiving.first(); older !== null && older !== loan; older = older.behind) {
    const rest = older.limitSize - older.size;
    bytes += nowMs - older.beganAtMs < QUICK_MS ? rest : Math.min(rest, older.size);
  }
  return bytes;
}

/** The least that it must have more. What waits counts already. */
function stepOf(loan: Loan): number {
  return blockSize(loan.neededBytes, loan.limitSize) - loan.size - loan.waitingBytes;
}

function isHeldUp(lender: Lender, loan: Loan): boolean {
  return lender.shares.allowsAlone(claimOf(lender, loan, stepOf(loan) + expectedBefore(lender, loan)));
}

function tryGrow(lender: Lender, loan: Loan): boolean {
  const { account, limitSize, neededBytes } = loan;
  const has = loan.size + loan.waitingBytes;
  const ample = limitSize <= AT_ONCE_BYTES ? limitSize : blockSize(GENEROUS * neededBytes, limitSize);
  const generously = claimOf(lender, loan, 2 * (ample - has) + account.claimedBytes);
  if (lender.shares.allows(generously)) return lend(lender, loan, ample);
  if (!lender.shares.allows(claimOf(lender, loan, stepOf(loan) + expectedBefore(lender, loan)))) return false;
  return lend(lender, loan, blockSize(neededBytes, limitSize));
}

/** All that it may still need, of the finishing room. */
function tryFinish(lender: Lender, loan: Loan): boolean {
  const rest = loan.limitSize - loan.size;
  if (lender.finishingBytes + rest > lender.shares.finishingBytes) return false;
  loan.finishingBytes += rest;
  loan.account.finishingBytes += rest;
  lender.finishingBytes += rest;
  share(lender, loan.account, -rest);
  lender.finishers.add(loan);
  return lend(lender, loan, loan.limitSize);
}

/** The finishing room is free again as soon as the shared part has room for what is lent of it. */
function relabel(lender: Lender): void {
  for (const loan of lender.finishers) {
    if (lender.shares.allows(claimOf(lender, loan, loan.finishingBytes))) endFinishing(lender, loan);
  }
}

function endFinishing(lender: Lender, loan: Loan): void {
  const bytes = loan.finishingBytes;
  if (!lender.finishers.delete(loan)) return;
  loan.finishingBytes = 0;
  loan.account.finishingBytes -= bytes;
  lender.finishingBytes -= bytes;
  share(lender, loan.account, bytes);
}

function share(lender: Lender, account: Account, bytes: number): void {
  account.sharedBytes += bytes;
  lender.sharedBytes += bytes;
}

function lend(lender: Lender, loan: Loan, size: number): true {
  const { account, block: old, size: oldSize } = loan;
  keepWaiting(lender, loan, 0);
  // Its own old block goes back while the new one is filled: for that moment there is one content more than the budget has.
  share(lender, account, size - oldSize);
  account.claimedBytes -= size - oldSize;
  loan.block = lender.arena.take(size);
  loan.size = size;
  if (loan.usedBytes > 0) copyInto(loan.block, 0, old.subarray(0, loan.usedBytes));
  lender.arena.give(old);
  return true;
}

/** What has arrived is here, and counts, whether there is room or not. */
function keepWaiting(lender: Lender, loan: Loan, bytes: number): void {
  share(lender, loan.account, bytes - loan.waitingBytes);
  lender.waitingBytes += bytes - loan.waitingBytes;
  loan.waitingBytes = bytes;
}

/** Refuses the youngest of those that wait when what has arrived for them is too much. */
function shed(lender: Lender, account: Account): void {
  const { shares, line } = lender;
  while (account.sharedBytes > shares.waitingLimitBytes && line.refuseYoungest(account));
  while (lender.sharedBytes > shares.sharedBytes && line.refuseYoungest(null));
}

function grow(lender: Lender, loan: Loan, bytes: number, usedBytes: number): boolean {
  if (bytes <= loan.size) return true;
  if (loan.number === 0) begin(lender, loan);
  loan.neededBytes = bytes;
  loan.usedBytes = usedBytes;
  if (lender.line.length === 0 && tryGrow(lender, loan)) return true;
  keepWaiting(lender, loan, bytes - usedBytes);
  const isServed = lender.line.join(loan);
  if (!isServed) shed(lender, loan.account);
  return isServed;
}

function begin(lender: Lender, loan: Loan): void {
  lender.begun += 1;
  loan.number = lender.begun;
  loan.beganAtMs = lender.now();
  loan.account.receiving.add(loan);
  loan.account.claimedBytes += loan.limitSize;
}

function seal({ line }: Lender, loan: Loan): void {
  if (!endReceiving(loan)) return;
  line.serve();
}

/** False: it had not begun, or is over already. */
function endReceiving(loan: Loan): boolean {
  const { account } = loan;
  if (!account.receiving.remove(loan)) return false;
  account.claimedBytes -= loan.limitSize - loan.size;
  return true;
}

interface Opening {
  /** Of the account. */
  readonly id: string;
  readonly limitBytes: number;
  readonly borrower: Borrower;
}

function openLease(lender: Lender, { id, limitBytes, borrower }: Opening): Lease {
  const account = accountOf(lender.accounts, id);
  account.leases += 1;
  const loan: Loan = {
    account,
    borrower,
    isSmall: limitBytes <= SMALL_UPLOAD_BYTES,
    limitSize: blockSize(limitBytes, CONTENT_LIMIT_BYTES),
    beganAtMs: 0,
    number: 0,
    block: NOTHING,
    size: 0,
    finishingBytes: 0,
    usedBytes: 0,
    neededBytes: 0,
    waitingBytes: 0,
    waitLeftMs: lender.waitMs,
    waitingSinceMs: 0,
    before: null,
    behind: null,
  };
  let isReleased = false;
  return {
    block: () => loan.block,
    grow: (bytes, usedBytes) => !isReleased && grow(lender, loan, bytes, usedBytes),
    seal: () => seal(lender, loan),
    release() {
      if (isReleased) return;
      isReleased = true;
      release(lender, loan);
      if (account.leases === 0) lender.accounts.delete(id);
      lender.line.serve();
    },
  };
}

/** Gives everything back; those that wait are served after it. */
function release(lender: Lender, loan: Loan): void {
  const { account } = loan;
  lender.line.leave(loan);
  keepWaiting(lender, loan, 0);
  endFinishing(lender, loan);
  share(lender, account, -loan.size);
  lender.arena.give(loan.block);
  loan.block = NOTHING;
  account.leases -= 1;
  endReceiving(loan);
}

function accountOf(accounts: Map<string, Account>, id: string): Account {
  const known = accounts.get(id);
  if (known !== undefined) return known;
  const account: Account = {
    sharedBytes: 0,
    finishingBytes: 0,
    claimedBytes: 0,
    leases: 0,
    receiving: createLine(),
  };
  accounts.set(id, account);
  return account;
}
