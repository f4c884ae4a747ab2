// Admission: may this key scan now? What every implementation answers in one atomic step, and the arithmetic of quota windows.

export interface QuotaState {
  /** Scans per hour. */
  readonly limit: number;
  readonly remaining: number;
  /** When the window ends. */
  readonly resetEpochSeconds: number;
}

export type Admission =
  | {
      readonly outcome: 'admitted';
      readonly userId: string;
      readonly keyId: string;
      readonly quota: QuotaState;
      /** Names the window that the unit was taken from. */
      readonly windowStartSeconds: number;
    }
  | { readonly outcome: 'exhausted'; readonly userId: string; readonly keyId: string; readonly quota: QuotaState }
  | { readonly outcome: 'unknownKey' };

export interface AdmissionStore {
  /**
   * Is the key live, what is its user's limit, take one unit: all or nothing. `keyHash` is the SHA-256 of the key in hex.
   * Rejects with Failure `unavailable` when that can't be found out.
   */
  admit(keyHash: string, nowMs: number): Promise<Admission>;
  /** Gives one unit back into its own window; nothing happens when that window is over. Returns the state of the window. */
  refund(userId: string, windowStartSeconds: number): Promise<QuotaState | null>;
  /** From its return on no request with this key is admitted, also if a look-up of it is under way. */
  revoke(keyHash: string): Promise<void>;
}

/** A live key, as the truth in Postgres has it. */
export interface LiveKey {
  readonly keyId: string;
  readonly userId: string;
  readonly hourlyLimit: number;
}

const WINDOW_SECONDS = 3600;

/** Windows are the hours of the UTC clock. */
export function windowStartOf(nowMs: number): number {
  const nowSeconds = Math.floor(nowMs / 1000);
  return nowSeconds - (nowSeconds % WINDOW_SECONDS);
}

export function quotaState(limit: number, used: number, windowStartSeconds: number): QuotaState {
  return {
    limit,
    remaining: Math.max(0, limit - used),
    resetEpochSeconds: windowStartSeconds + WINDOW_SECONDS,
  };
}
