// What an admission is: one unit of an hourly quota for a live key; the shapes every store shares, and the hour's arithmetic.

const HOUR_SECONDS = 3600;

/** What the X-RateLimit headers say. */
export interface QuotaState {
  readonly limit: number;
  readonly remaining: number;
  readonly resetEpochSeconds: number;
}

export type Admission =
  | {
      readonly outcome: 'admitted';
      readonly userId: string;
      readonly keyId: string;
      readonly quota: QuotaState;
      readonly windowStartSeconds: number;
    }
  | { readonly outcome: 'exhausted'; readonly userId: string; readonly keyId: string; readonly quota: QuotaState }
  | { readonly outcome: 'unknownKey' };

export interface AdmissionStore {
  /** One atomic step: the key is live, and one unit is taken. Throws Failure('unavailable') when nobody can tell. */
  admit(keyHash: string, nowMs: number): Promise<Admission>;
  /** Gives one unit back into the window it was taken from, never below zero; null when that window is no longer kept. */
  refund(userId: string, windowStartSeconds: number): Promise<QuotaState | null>;
  /** From its return on the key is refused, also by a look-up that is in flight. */
  revoke(keyHash: string): Promise<void>;
}

/** What a look-up by hash finds of a live key. */
export interface KeyRecord {
  readonly userId: string;
  readonly keyId: string;
  readonly hourlyLimit: number;
}

/** Null: no such key, or it is revoked. Rejects when the answer can't be had. */
export type KeyLoader = (keyHash: string) => Promise<KeyRecord | null>;

/** Start of the UTC clock hour; Unix time has no leap seconds, so hours are multiples of 3,600. */
export function windowStart(nowMs: number): number {
  return Math.floor(nowMs / 1000 / HOUR_SECONDS) * HOUR_SECONDS;
}

export function areNeighbours(oneStartSeconds: number, otherStartSeconds: number): boolean {
  return Math.abs(oneStartSeconds - otherStartSeconds) <= HOUR_SECONDS;
}

export function quotaState(limit: number, used: number, windowStartSeconds: number): QuotaState {
  // A plan may have shrunk in the middle of its hour.
  const remaining = Math.max(0, limit - used);
  return { limit, remaining, resetEpochSeconds: windowStartSeconds + HOUR_SECONDS };
}
