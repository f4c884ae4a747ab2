// Who asks, and may they: from the X-API-KEY header to a caller with one unit of quota taken.
import { createHash } from 'node:crypto';
import type { AdmissionStore, QuotaState } from '../store/admission.js';

export type Access =
  | {
      readonly outcome: 'admitted';
      readonly userId: string;
      readonly keyId: string | null;
      readonly quota: QuotaState;
      /** Gives the unit back, once, into the window it came from. Returns the state to report. */
      refund(): Promise<QuotaState>;
    }
  | { readonly outcome: 'exhausted'; readonly quota: QuotaState }
  | { readonly outcome: 'keyMissing' }
  | { readonly outcome: 'keyInvalid' };

export interface AccessControl {
  /** Rejects with Failure `unavailable` when the stores can't say. */
  withApiKey(header: string | undefined): Promise<Access>;
}

/** A key as it was given out; anything else isn't worth a look-up. */
const KEY = /^[0-9a-f]{32}$/;

export function createAccess(store: AdmissionStore, clock: () => number): AccessControl {
  return {
    async withApiKey(header) {
      if (header === undefined || header === '') return { outcome: 'keyMissing' };
      if (!KEY.test(header)) return { outcome: 'keyInvalid' };
      const admission = await store.admit(hashKey(header), clock());
      switch (admission.outcome) {
        case 'unknownKey':
          return { outcome: 'keyInvalid' };
        case 'exhausted':
          return { outcome: 'exhausted', quota: admission.quota };
        case 'admitted': {
          const { userId, keyId, quota, windowStartSeconds } = admission;
          let refunded: Promise<QuotaState> | null = null;
          const refund = (): Promise<QuotaState> => {
            refunded ??= store.refund(userId, windowStartSeconds).then((state) => state ?? quota);
            return refunded;
          };
          return { outcome: 'admitted', userId, keyId, quota, refund };
        }
      }
    },
  };
}

/** What is stored and compared in place of a key: 64 hexadecimal characters. Keys are random, so no salt is needed. */
export function hashKey(value: string): string {
  return createHash('sha256').update(value).digest('hex');
}
