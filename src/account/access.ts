// Who asks: an X-API-KEY header or a signed-in user in, an admission with its refund out.
import { hash } from 'node:crypto';
import { Failure } from '../errors.js';
import type { Admission, AdmissionStore, QuotaState } from '../store/admission.js';

export type Access =
  | {
      readonly outcome: 'admitted';
      readonly userId: string;
      /** Null: a signed-in user. */
      readonly keyId: string | null;
      readonly quota: QuotaState;
      /** Gives the unit back into the hour it came from. Acts once; later calls return the same. */
      refund(): Promise<QuotaState>;
    }
  | { readonly outcome: 'exhausted'; readonly quota: QuotaState; readonly retryAfterSeconds: number }
  | { readonly outcome: 'keyMissing' }
  | { readonly outcome: 'keyInvalid' };

export interface AccessControl {
  /** Takes one unit when the key is live. Throws Failure('unavailable') when nobody can tell. */
  withApiKey(header: string | undefined): Promise<Access>;
  /**
   * To be asked behind `withApiKey`, which is likely to admit this user (an id) then: work that nobody else sees may begin beside it.
   * Null: nobody is expected.
   */
  expectedUser(header: string | undefined): string | null;
  /** Takes one unit of a user whose access token was accepted. */
  asUser(user: { readonly userId: string; readonly plan: string }): Promise<Access>;
}

const KEY = /^[0-9a-f]{32}$/;

/**
 * For answers that cost nothing: the key is asked for, and no unit is taken. `find` looks the key up by its hash; null: it isn't a live one.
 * Throws Failure `keyMissing`, `keyInvalid` or `unavailable`.
 */
export async function assertLiveKey(
  header: string | undefined,
  find: (keyHash: string) => Promise<object | null>,
): Promise<void> {
  const key = header?.trim() ?? '';
  if (key === '') throw new Failure('keyMissing');
  if (!KEY.test(key) || (await find(hashOfKey(key))) === null) throw new Failure('keyInvalid');
}

/** `limitOf` says how many scans per hour a plan has. */
export function createAccess(store: AdmissionStore, limitOf: (plan: string) => number): AccessControl {
  return {
    async withApiKey(header) {
      const key = header?.trim() ?? '';
      if (key === '') return { outcome: 'keyMissing' };
      if (!KEY.test(key)) return { outcome: 'keyInvalid' };
      return accessOf(await store.admit(hashOfKey(key)));
    },
    expectedUser(header) {
      const key = header?.trim() ?? '';
      return KEY.test(key) ? store.expectedUser(hashOfKey(key)) : null;
    },
    async asUser({ userId, plan }) {
      return accessOf(await store.admitUser({ userId, hourlyLimit: limitOf(plan) }));
    },
  };
}

/** The form in which a key is stored and looked up: SHA-256, 64 hex characters. It has 128 random bits: no salt is needed. */
export function hashOfKey(value: string): string {
  return hash('sha256', value);
}

function accessOf(admission: Admission): Access {
  switch (admission.outcome) {
    case 'unknownKey':
      return { outcome: 'keyInvalid' };
    case 'exhausted':
      return admission;
    case 'admitted': {
      const { userId, keyId, quota } = admission;
      let refunded: Promise<QuotaState> | null = null;
      const give = async () => (await admission.refund()) ?? quota;
      const refund = (): Promise<QuotaState> => {
        refunded ??= give();
        return refunded;
      };
      return { outcome: 'admitted', userId, keyId, quota, refund };
    }
  }
}
