// What an admission is: one unit of an hourly quota for a live key or a signed-in user; the shapes all of it shares, and the hour's arithmetic; and what
// a ledger is: who may, and how many units this hour has seen, in Redis for many nodes, in memory for one.
import type { KeyRules } from '../config/plans.js';

export const HOUR_SECONDS = 3600;
/** Users, and keys, that one process remembers, 150 to 500 bytes each; the one that was used least recently makes room. */
export const REMEMBERED_MAX = 100_000;

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
export type Admission = UserAdmission | { readonly outcome: 'keyInvalid' | 'scopeMissing' };

export interface UsedHour {
  readonly windowStartSeconds: number;
  readonly used: number;
  readonly refused: number;
}

export interface KeyOwner {
  readonly userId: string;
  readonly keyId: string;
}

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
export const windowStart = (nowSeconds: number): number => Math.floor(nowSeconds / HOUR_SECONDS) * HOUR_SECONDS;

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

export interface Tally {
  readonly limit: number;
  /** Units of this hour that the ledger gave, and those of them that came back: both only grow. */
  readonly counted: number;
  readonly returned: number;
  /** Units of this hour that Postgres gave while the ledger was away, without those that came back. */
  readonly direct: number;
}

export interface Count extends Tally {
  readonly kind: 'taken' | 'exhausted';
  /** The same of the key, when it has a limit of its own. */
  readonly own?: Tally | undefined;
  /** What the ledger has of the key, as `KeyRules.text`; absent: it may all that its account may. */
  readonly rules?: string | undefined;
  readonly windowStartSeconds: number;
  /** By the ledger's clock: nodes' clocks may differ, the window must not. */
  readonly nowSeconds: number;
}

export const usedUnits = ({ counted, returned, direct }: Omit<Tally, 'limit'>): number => counted - returned + direct;

/**
 * `missing`: the ledger doesn't know the user or the key, Postgres must be asked. `revoked`: it knows that the key has ended. By the rules that
 * it has, the key's time is over (`expired`), or it is not for scans (`unscoped`).
 */
export type LedgerAnswer =
  | Count
  | { readonly kind: 'missing' }
  | { readonly kind: 'revoked' }
  | { readonly kind: 'expired' | 'unscoped'; readonly rules: string };

export interface LedgerKey {
  readonly hash: string;
  readonly keyId: string;
  readonly rules?: KeyRules | undefined;
}

export interface Facts {
  /** Null: the user's limit and hours alone. */
  readonly key: LedgerKey | null;
  readonly hourlyLimit: number;
  readonly hours: readonly QuotaHour[];
}

/** With the limit of the user, also where it is the hour of a key. */
export interface GivenBack extends Tally {
  readonly windowStartSeconds: number;
}

/** Each method is one atomic step. All of them reject with StoreAway when the ledger can't be reached. */
export interface Ledger {
  /**
   * Takes one unit if the key is live; `keyHash` null: the request is of a signed-in user, who was accepted already. A ledger in memory
   * answers at once.
   */
  take(userId: string, keyHash: string | null): LedgerAnswer | Promise<LedgerAnswer>;
  /** The user's hour as it is, without taking a unit; null: the ledger doesn't know the user. */
  look(userId: string): Promise<Omit<Count, 'kind'> | null>;
  /** Gives a unit of the user back, or of a key that is counted for itself; null: it has none that was taken here and didn't come back. */
  giveBack(userId: string, windowStartSeconds: number, keyId?: string): Promise<GivenBack | null>;
  /**
   * A token for what is about to be read from Postgres. It becomes void when a key of the user is revoked or changed, the limit is set,
   * or the ledger loses what it had. So nothing that was read before such a change is filled in after it.
   */
  begin(userId: string): Promise<string>;
  /** Takes over what Postgres said, unless the token is void: then false. Hours only grow. */
  fill(userId: string, token: string, facts: Facts): Promise<boolean>;
  revoke(userId: string, keyHash: string): Promise<void>;
  setLimit(userId: string, hourlyLimit: number): Promise<void>;
  /** What a live key may, in the place of what is known of it. */
  setKey(userId: string, key: LedgerKey): Promise<void>;
  /** Lets the hours of users that the ledger knows grow to what Postgres says. */
  raise(hours: readonly QuotaHour[]): Promise<void>;
  /** Who owned the key when it was last filled in, live or not: for a Postgres that is away. */
  ownerOf(keyHash: string): Promise<KeyOwner | null>;
  rememberOwner(keyHash: string, owner: KeyOwner): Promise<void>;
}

/**
 * A user's record is kept so long after the beginning of the last hour in which a unit was counted. So a key that was used within a day
 * goes on while Postgres is away. Records that were filled by mistake live no longer than recentRevocations looks back (account/keys.ts).
 */
export const RECORD_SECONDS = 25 * 3600;
/**
 * Hours of one user that are kept. Of more the one that is farthest from the present one goes, not the oldest: a clock that was hours
 * ahead for a while, and is set back, finds its counts.
 */
export const HOURS_KEPT = 6;
/**
 * Keys of one user that a record can have, live or ended. A user has at most 50 live ones. When so many end in the life of a record
 * that it is full, the ledger forgets all of them and fills in again from Postgres those that are live.
 */
export const RECORD_KEYS_MAX = 250;
