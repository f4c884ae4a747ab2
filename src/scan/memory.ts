// The memory of contents: lent as bytes arrive, within one budget and fairly between accounts, so that any number of clients stays inside a stated bound.
import { performance } from 'node:perf_hooks';
import { Failure } from '../errors.js';
import { CONTENT_LIMIT_BYTES, SMALL_UPLOAD_BYTES } from '../limits.js';
import type { Account, Borrower, Loan } from './memory-loan.js';
import { type Claim, createShares } from './memory-shares.js';
import { createWaitingLine } from './memory-waiters.js';
import { bufferSize, createSpareBuffers } from './spare-buffers.js';

/** What one upload has of the memory: nothing at first. */
export interface Lease {
  /** What is lent; growing puts a larger one in its place. */
  buffer(): ArrayBuffer;
  /**
   * Asks for room for so many bytes, of which the buffer holds the first `usedBytes`; these are in the new buffer then. True: there is
   * room now. False: the borrower hears of it, and keeps what has arrived until then; it may ask for more meanwhile.
   */
  grow(bytes: number, usedBytes: number): boolean;
  /** The content is whole: it won't grow, and isn't ended for the sake of others any more. */
  seal(): void;
  /** Gives the memory back, with the buffer as it came back from the scan (its old reference is detached), or null if it is lost. */
  release(buffer: ArrayBuffer | null): void;
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
  /** Milliseconds from anywhere; default: those of the process. */
  readonly now?: () => number;
}

const NOTHING = new ArrayBuffer(0);
/** Declared sizes up to this are lent at once: as much may lie in the socket. */
const AT_ONCE_BYTES = 64 * 1024;
/** While there is plenty, a buffer has room for so many times what has arrived: each growth is a copy. */
const GENEROUS = 4;
/** For so long an upload is expected to need all that it declared; afterwards, as much again as it has by then. */
const QUICK_MS = 2_000;

export function createUploadMemory(options: MemoryOptions): UploadMemory {
  const { budgetBytes, reserveShare, now = () => performance.now() } = options;
  const shares = createShares(budgetBytes, reserveShare);
  const spare = createSpareBuffers(budgetBytes, () => sharedBytes + finishingBytes);
  const accounts = new Map<string, Account>();
  const finishers = new Set<Loan>();
  let sharedBytes = 0;
  let finishingBytes = 0;
  let waitingBytes = 0;
  let begun = 0;

  const line = createWaitingLine({
    now,
    tooLong: new Failure('unavailable', `Too many ${options.use} at once`, RETRY_SECONDS),
    accounts,
    tryGrow,
    tryFinish,
    isHeldUp: (loan) => shares.allowsAlone(claimOf(loan, stepOf(loan) + expectedBefore(loan))),
    stepOf,
    relabel,
  });

  function claimOf({ account, isSmall }: Loan, extraBytes: number): Claim {
    return { ownBytes: account.sharedBytes, sharedBytes, extraBytes, isSmall };
  }

  /**
   * What older uploads of the account are expected to need: a younger one that took it would keep them from their end. Small ones
   * have room beside them.
   */
  function expectedBefore(loan: Loan): number {
    if (loan.isSmall) return 0;
    const nowMs = now();
    let bytes = 0;
    for (const older of loan.account.receiving) {
      if (older === loan) break;
      const rest = older.limitSize - older.size;
      bytes += nowMs - older.beganAtMs < QUICK_MS ? rest : Math.min(rest, older.size);
    }
    return bytes;
  }

  /** The least that it must have more. What waits counts already. */
  function stepOf(loan: Loan): number {
    return bufferSize(loan.neededBytes, loan.limitSize) - loan.size - loan.waitingBytes;
  }

  function tryGrow(loan: Loan): boolean {
    const { account, limitSize, neededBytes } = loan;
    const has = loan.size + loan.waitingBytes;
    const ample = limitSize <= AT_ONCE_BYTES ? limitSize : bufferSize(GENEROUS * neededBytes, limitSize);
    if (shares.allows(claimOf(loan, 2 * (ample - has) + account.claimedBytes))) return lend(loan, ample);
    if (!shares.allows(claimOf(loan, stepOf(loan) + expectedBefore(loan)))) return false;
    return lend(loan, bufferSize(neededBytes, limitSize));
  }

  /** All that it may still need, of the finishing room. */
  function tryFinish(loan: Loan): boolean {
    const rest = loan.limitSize - loan.size;
    if (finishingBytes + rest > shares.finishingBytes) return false;
    loan.finishingBytes += rest;
    loan.account.finishingBytes += rest;
    finishingBytes += rest;
    share(loan.account, -rest);
    finishers.add(loan);
    return lend(loan, loan.limitSize);
  }

  /** The finishing room is free again as soon as the shared part has room for what is lent of it. */
  function relabel(): void {
    for (const loan of finishers) {
      if (shares.allows(claimOf(loan, loan.finishingBytes))) endFinishing(loan);
    }
  }

  function endFinishing(loan: Loan): void {
    const bytes = loan.finishingBytes;
    if (!finishers.delete(loan)) return;
    loan.finishingBytes = 0;
    loan.account.finishingBytes -= bytes;
    finishingBytes -= bytes;
    share(loan.account, bytes);
  }

  function share(account: Account, bytes: number): void {
    account.sharedBytes += bytes;
    sharedBytes += bytes;
  }

  function lend(loan: Loan, size: number): true {
    const { account, buffer: old, size: oldSize } = loan;
    keepWaiting(loan, 0);
    // Its own old buffer goes back while the new one is filled: for that moment there is one content more than the budget has.
    share(account, size - oldSize);
    account.claimedBytes -= size - oldSize;
    loan.buffer = spare.take(size);
    loan.size = size;
    if (loan.usedBytes > 0) new Uint8Array(loan.buffer).set(new Uint8Array(old, 0, loan.usedBytes));
    spare.give(oldSize, old);
    return true;
  }

  /** What has arrived is here, and counts, whether there is room or not. */
  function keepWaiting(loan: Loan, bytes: number): void {
    share(loan.account, bytes - loan.waitingBytes);
    waitingBytes += bytes - loan.waitingBytes;
    loan.waitingBytes = bytes;
  }

  /** Refuses the youngest of those that wait when what has arrived for them is too much. */
  function shed(account: Account): void {
    while (account.sharedBytes > shares.waitingLimitBytes && line.refuseYoungest(account));
    while (sharedBytes > shares.sharedBytes && line.refuseYoungest(null));
  }

  function grow(loan: Loan, bytes: number, usedBytes: number): boolean {
    if (bytes <= loan.size) return true;
    if (loan.number === 0) {
      begun += 1;
      loan.number = begun;
      loan.beganAtMs = now();
      loan.account.receiving.add(loan);
      loan.account.claimedBytes += loan.limitSize;
    }
    loan.neededBytes = bytes;
    loan.usedBytes = usedBytes;
    if (line.length === 0 && tryGrow(loan)) return true;
    keepWaiting(loan, bytes - usedBytes);
    const isServed = line.join(loan);
    if (!isServed) shed(loan.account);
    return isServed;
  }

  function seal(loan: Loan): void {
    if (!loan.account.receiving.delete(loan)) return;
    loan.account.claimedBytes -= loan.limitSize - loan.size;
    line.serve();
  }

  function open(id: string, limitBytes: number, borrower: Borrower): Lease {
    const account = accountOf(id);
    account.leases += 1;
    const loan: Loan = {
      account,
      borrower,
      isSmall: limitBytes <= SMALL_UPLOAD_BYTES,
      limitSize: bufferSize(limitBytes, CONTENT_LIMIT_BYTES),
      beganAtMs: 0,
      number: 0,
      buffer: NOTHING,
      size: 0,
      finishingBytes: 0,
      usedBytes: 0,
      neededBytes: 0,
      waitingBytes: 0,
      waitLeftMs: options.waitMs,
      waitingSinceMs: 0,
    };
    let isReleased = false;
    return {
      buffer: () => loan.buffer,
      grow: (bytes, usedBytes) => !isReleased && grow(loan, bytes, usedBytes),
      seal: () => seal(loan),
      release(buffer) {
        if (isReleased) return;
        isReleased = true;
        line.leave(loan);
        keepWaiting(loan, 0);
        endFinishing(loan);
        share(account, -loan.size);
        spare.give(loan.size, buffer);
        account.leases -= 1;
        if (account.leases === 0) accounts.delete(id);
        if (account.receiving.delete(loan)) account.claimedBytes -= loan.limitSize - loan.size;
        line.serve();
      },
    };
  }

  function accountOf(id: string): Account {
    const known = accounts.get(id);
    if (known !== undefined) return known;
    const account: Account = {
      sharedBytes: 0,
      finishingBytes: 0,
      claimedBytes: 0,
      leases: 0,
      receiving: new Set(),
    };
    accounts.set(id, account);
    return account;
  }

  return {
    open,
    get lentBytes() {
      return sharedBytes + finishingBytes;
    },
    get waitingBytes() {
      return waitingBytes;
    },
    get waiting() {
      return line.length;
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
      return line.ended;
    },
  };
}

const RETRY_SECONDS = 5;
