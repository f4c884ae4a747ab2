// What is lent to whom: the shapes that the lender of memory and the line of those who wait for it share.
import type { Failure } from '../../errors.js';
import type { InLine, Line } from '../../waiting/line.js';
import type { Block } from './arena.js';

/** The upload's side of a lease. */
export interface Borrower {
  /** There is room for what was asked for. */
  room(): void;
  /** It has waited too long, or its memory is needed for others. It must release the lease now. */
  refused(reason: Failure): void;
}

export interface Account {
  /** Bytes of the shared part, those that wait included. */
  sharedBytes: number;
  /** Bytes of the finishing room. */
  finishingBytes: number;
  /** What its uploads on their way may still ask for. */
  claimedBytes: number;
  leases: number;
  /** On their way, the oldest first. */
  readonly receiving: Line<Loan>;
}

/** A lease as the lender sees it. */
export interface Loan extends InLine<Loan> {
  readonly account: Account;
  readonly borrower: Borrower;
  readonly isSmall: boolean;
  /** Its largest block. */
  readonly limitSize: number;
  beganAtMs: number;
  /** In the order in which they began; 0: nothing has arrived. */
  number: number;
  block: Block;
  size: number;
  /** How many bytes of the size are of the finishing room. */
  finishingBytes: number;
  usedBytes: number;
  neededBytes: number;
  /** Bytes that have arrived and have no room. */
  waitingBytes: number;
  waitLeftMs: number;
  waitingSinceMs: number;
}
