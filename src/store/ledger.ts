// The ledger of admissions: who may, and how many units this hour has seen; in Redis for many nodes, in memory for one.
import type { KeyOwner, QuotaHour } from './admission.js';

export interface Count {
  /** Whether a unit was taken. */
  readonly kind: 'taken' | 'exhausted';
  readonly limit: number;
  /** Units of this hour that the ledger has counted. */
  readonly counted: number;
  /** Units of this hour that Postgres counted while the ledger was away. */
  readonly direct: number;
  readonly windowStartSeconds: number;
  /** By the ledger's clock: nodes' clocks may differ, the window must not. */
  readonly nowSeconds: number;
}

/** `missing`: the ledger doesn't know the user or the key, Postgres must be asked. `revoked`: it knows that the key has ended. */
export type LedgerAnswer = Count | { readonly kind: 'missing' } | { readonly kind: 'revoked' };

export interface Facts {
  /** Null: the user's limit and hours alone. */
  readonly key: { readonly hash: string; readonly keyId: string } | null;
  readonly hourlyLimit: number;
  readonly hours: readonly QuotaHour[];
}

/** Each method is one atomic step. All of them throw LedgerAway when the ledger can't be reached. */
export interface Ledger {
  /** Takes one unit if the key is live; `keyHash` null: whoever the user is asked by was accepted already. */
  take(userId: string, keyHash: string | null): Promise<LedgerAnswer>;
  /** The user's hour as it is, without taking a unit; null: the ledger doesn't know the user. */
  look(userId: string): Promise<Omit<Count, 'kind'> | null>;
  /** Gives a unit back, never below zero; null when the hour is no longer kept. */
  giveBack(userId: string, windowStartSeconds: number): Promise<Omit<Count, 'kind' | 'nowSeconds'> | null>;
  /**
   * A token for what is about to be read from Postgres. It goes void when a key of the user is revoked, the limit is set, or
   * the ledger loses what it had: so what was read before that can't be filled in after it.
   */
  begin(userId: string): Promise<string>;
  /** Takes over what Postgres said, unless the token is void: then false. Hours only grow. */
  fill(userId: string, token: string, facts: Facts): Promise<boolean>;
  revoke(userId: string, keyHash: string): Promise<void>;
  setLimit(userId: string, hourlyLimit: number): Promise<void>;
  /** Lets the hours of users that the ledger knows grow to what Postgres says. */
  raise(hours: readonly QuotaHour[]): Promise<void>;
  /** Who owned the key when it was last filled in, live or not: for a Postgres that is away. */
  ownerOf(keyHash: string): Promise<KeyOwner | null>;
  rememberOwner(keyHash: string, owner: KeyOwner): Promise<void>;
}

export class LedgerAway extends Error {
  constructor(cause: unknown) {
    super('The ledger of admissions is not reachable', { cause });
    this.name = 'LedgerAway';
  }
}

/**
 * A user's record is forgotten so long after the hour in which a unit was counted last began: a key that was used within a day goes on
 * while Postgres is away. Records that were filled by mistake live no longer than recentRevocations looks back (account/keys.ts).
 */
export const RECORD_SECONDS = 25 * 3600;
/** An hour's count is kept so long after it began: the hour itself, and the one after it for refunds. */
export const HOUR_KEPT_SECONDS = 2 * 3600;
/**
 * Keys of a user that the ledger has an opinion of, live or ended. A user has at most 50 live ones; whoever ends more than that in the
 * life of a record has all of them forgotten, and those that are live filled in again from Postgres.
 */
export const RECORD_KEYS_MAX = 250;
