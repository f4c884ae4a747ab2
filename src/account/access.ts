// Who asks: an X-API-KEY header in, an admission with its refund out.
import { createHash } from 'node:crypto';
import type { Admission, AdmissionStore, QuotaState } from '../store/admission.js';

export type Access =
  | {
      readonly outcome: 'admitted';
      readonly userId: string;
      readonly keyId: string | null;
      readonly quota: QuotaState;
      /** Gives the unit back into the hour it came from. Acts once; later calls return the same. */
      refund(): Promise<QuotaState>;
    }
  | { readonly outcome: 'exhausted'; readonly quota: QuotaState }
  | { readonly outcome: 'keyMissing' }
  | { readonly outcome: 'keyInvalid' };

export interface AccessControl {
  /** Takes one unit when the key is live. Throws Failure('unavailable') when nobody can tell. */
  withApiKey(header: string | undefined): Promise<Access>;
}

const KEY = /^[0-9a-f]{32}$/;

export function createAccess(store: AdmissionStore, clock: () => number): AccessControl {
  return {
    async withApiKey(header) {
      const key = header?.trim() ?? '';
      if (key === '') return { outcome: 'keyMissing' };
      if (!KEY.test(key)) return { outcome: 'keyInvalid' };
      const admission = await store.admit(hashOfKey(key), clock());
      switch (admission.outcome) {
        case 'unknownKey':
          return { outcome: 'keyInvalid' };
        case 'exhausted':
          return { outcome: 'exhausted', quota: admission.quota };
        case 'admitted':
          return admitted(store, admission);
      }
    },
  };
}

/** The form in which a key is stored and looked up: SHA-256, 64 hex characters. It has 128 random bits: no salt is needed. */
export function hashOfKey(value: string): string {
  return createHash('sha256').update(value).digest('hex');
}

function admitted(store: AdmissionStore, admission: Extract<Admission, { outcome: 'admitted' }>): Access {
  const { userId, keyId, quota, windowStartSeconds } = admission;
  let refunded: Promise<QuotaState> | null = null;
  const give = async () => (await store.refund(userId, windowStartSeconds)) ?? quota;
  return {
    outcome: 'admitted',
    userId,
    keyId,
    quota,
    refund: () => {
      refunded ??= give();
      return refunded;
    },
  };
}
