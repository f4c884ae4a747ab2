// What an admission is: one unit of an hourly quota for a live key or a signed-in user; the shapes all of it shares, and the hour's arithmetic.

import type { KeyLimits, KeyRules } from '../config/key-rules.js';

export const HOUR_SECONDS = 3600;
/** Users, and keys, that one process remembers, 150 to 500 bytes each; the one that was used least recently makes room. */
export const REMEMBERED_MAX = 100_000;

/** What the X-RateLimit headers say. */
export interface QuotaState {
  readonly limit: number;
  readonly remaining: number;
  readonly resetEpochSeconds: number;
}

export type UserAdmission =
  | {
      readonly outcome: 'admitted';
      readonly userId: string;
      /** Null: a signed-in user asked. */
      readonly keyId: string | null;
      readonly quota: QuotaState;
      /** Gives the unit back into the hour and the store it was taken from. Acts once; later calls return the same. */
      refund(): Promise<QuotaState>;
    }
  | { readonly outcome: 'exhausted'; readonly quota: QuotaState; readonly retryAfterSeconds: number };

/** `scopeMissing`: the key is live, and not for scans. */
export type Admission = UserAdmission | { readonly outcome: 'unknownKey' | 'scopeMissing' };

export interface AdmissionStore {
  /** The key (its SHA-256 as 64 hex characters) is live, and one unit is taken. Throws Failure('unavailable') when nobody can tell. */
  admit(keyHash: string): Admission | Promise<Admission>;
  /**
   * To be asked before `admit`, or while it asks: its user was admitted lately, with units left for all that are being asked for. So work on the
   * request may begin, as long as nothing of it gets out before `admit` has answered; what comes to nothing stays within the quota.
   * Returns the id of that user, which never changes for a key; null: nothing is expected.
   */
  expectedUser(keyHash: string): string | null;
  /** The user (an id) whose key it is or was, as this process remembers; null: it doesn't know. It costs nothing, and admits nobody. */
  knownUser(keyHash: string): string | null;
  /** Counts a scan of the user that was refused before it was admitted. */
  refuse(userId: string): void;
  /** Takes one unit for a user whom Postgres has just vouched for. */
  admitUser(user: { readonly userId: string; readonly hourlyLimit: number }): Promise<UserAdmission>;
  /** Gives a unit back that any process has taken, once for each call. Rejects where nobody can count it now. */
  giveBack(userId: string, windowStartSeconds: number, keyId: string | null): Promise<void>;
  /** What is left of the hour, without taking a unit. Throws Failure('unavailable'). */
  quotaOf(user: { readonly userId: string; readonly hourlyLimit: number }): Promise<QuotaState>;
  /**
   * Call it after Postgres has committed the revocation. From its return on every node refuses the key, also one whose look-up
   * is in flight. Throws Failure('unavailable') when a node can't be reached: then the key may still be admitted there.
   */
  revoke(key: { readonly userId: string; readonly keyHash: string }): Promise<void>;
  /** Call it after Postgres has committed another plan: the next admission on every node counts against the new limit. */
  setLimit(userId: string, hourlyLimit: number): Promise<void>;
  /** The same of what a key may. */
  setKeyLimits(
    key: { readonly userId: string; readonly keyHash: string; readonly keyId: string },
    limits: KeyLimits,
  ): Promise<void>;
  /** What the user has used and was refused in each hour of the last day, the oldest first. */
  lastDay(userId: string): Promise<readonly UsedHour[]>;
  /** Null when all is well, otherwise what works less well than it should: for the operator. */
  problem(): string | null;
  /** Writes what is counted and not yet in Postgres; rejects when that can't be done. */
  flush(): Promise<void>;
  /** The same, for the last time. */
  stop(): Promise<void>;
}

export interface UsedHour {
  readonly windowStartSeconds: number;
  readonly used: number;
  readonly refused: number;
}

export interface KeyOwner {
  readonly userId: string;
  readonly keyId: string;
}

/** What a look-up by hash finds of a live key. */
export interface KeyRecord extends KeyOwner {
  /** Of the account. */
  readonly hourlyLimit: number;
  /** Absent: it may all that its account may. */
  readonly rules?: KeyRules | undefined;
}

/** By hash; what isn't there is unknown or revoked. Rejects when the answer can't be had. */
export type KeyLoader = (keyHashes: readonly string[]) => Promise<ReadonlyMap<string, KeyRecord>>;

/**
 * What Postgres knows of one hour of a user, or of a key that has a limit of its own. A unit that comes back is counted beside those that were taken: each count only grows, so of
 * two copies the larger one is always the newer one.
 */
export interface QuotaHour {
  readonly userId: string;
  /** Absent: it is the hour of the user. */
  readonly keyId?: string;
  readonly windowStartSeconds: number;
  /** Units that the ledger gave, as Postgres has them: at most a second behind. */
  readonly mirrored: number;
  /** Those of them that came back. */
  readonly returned: number;
  /** Units that Postgres gave itself, while the ledger was away. */
  readonly direct: number;
  readonly directReturned: number;
}

/** Start of the UTC clock hour; Unix time has no leap seconds, so hours are multiples of 3,600. */
export function windowStart(nowSeconds: number): number {
  return Math.floor(nowSeconds / HOUR_SECONDS) * HOUR_SECONDS;
}

/** Units of an hour that are used. */
export function usedOf({
  mirrored,
  returned,
  direct,
  directReturned,
}: Omit<QuotaHour, 'userId' | 'keyId' | 'windowStartSeconds'>): number {
  return mirrored - returned + direct - directReturned;
}

export function quotaState(limit: number, used: number, windowStartSeconds: number): QuotaState {
  // A plan may have shrunk in the middle of its hour.
  const remaining = Math.max(0, limit - used);
  return { limit, remaining, resetEpochSeconds: windowStartSeconds + HOUR_SECONDS };
}
