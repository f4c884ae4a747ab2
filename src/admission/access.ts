// From the credentials of a scan request to its admission: an X-API-KEY header or a signed-in user in, an admission with its refund out.
import type { KeyScope } from '../config/key-rules.js';
import { limitOf, type Plans, SUSPENDED_LIMIT } from '../config/plans.js';
import { Failure } from '../errors.js';
import { hashOfKey } from '../store/key-hash.js';
import type { Admission, AdmissionStore, KeyRecord, UserAdmission } from './admission.js';
import type { Lookups } from './lookups.js';

export type Access =
  | UserAdmission
  | { readonly outcome: 'keyMissing' | 'keyInvalid' | 'accountSuspended' | 'scopeMissing' };

export interface EarlyWork {
  /** This user (an id) is likely to be admitted. */
  begin(userId: string): void;
}

/** A user whose access token was accepted is not suspended. */
interface User {
  readonly userId: string;
  readonly plan: string;
  readonly ownLimit: number | null;
}

export interface AccessControl {
  /**
   * Takes one unit when the key is live. Rejects with Failure('unavailable') when nobody can tell. What is known here is answered at once;
   * otherwise work that nobody else sees may begin beside the question, where its answer is likely.
   */
  withApiKey(header: string | undefined, work?: EarlyWork): Access | Promise<Access>;
  /** The user (an id) whose key that is or was, where this process remembers. It admits nobody. */
  knownUser(header: string | undefined): string | null;
  /** The user (an id) for whom a scan with that key would be admitted, as far as this process knows; null: it asks. It takes nothing. */
  expectedUser(header: string | undefined): string | null;
  /** Counts, for the user's use by hour, a scan that was refused before its admission. */
  refuse(userId: string): void;
  /** Takes one unit of a user whose access token was accepted. */
  asUser(user: User): Promise<Access>;
}

const KEY = /^[0-9a-f]{32}$/;

/**
 * For answers that cost nothing: the key is asked for, and no unit is taken. `find` looks the key up by its hash; null: it isn't a live one.
 * `scope`: what it has to be for; null: for anything. Throws Failure `keyMissing`, `keyInvalid`, `accountSuspended`, `scopeMissing` or `unavailable`.
 */
export async function liveKey(
  header: string | undefined,
  find: Lookups['find'],
  scope: KeyScope | null,
): Promise<KeyRecord> {
  const key = header?.trim() ?? '';
  if (key === '') throw new Failure('keyMissing');
  const record = KEY.test(key) ? await find(hashOfKey(key)) : null;
  if (record === null) throw new Failure('keyInvalid');
  if (record.hourlyLimit === SUSPENDED_LIMIT) throw new Failure('accountSuspended');
  if (scope !== null && record.rules?.allows(scope) === false) throw new Failure('scopeMissing', scope);
  return record;
}

export function createAccess(store: AdmissionStore, plans: Plans): AccessControl {
  return {
    withApiKey(header, work) {
      const key = header?.trim() ?? '';
      if (key === '') return { outcome: 'keyMissing' };
      if (!KEY.test(key)) return { outcome: 'keyInvalid' };
      const keyHash = hashOfKey(key);
      const admission = store.admit(keyHash);
      if (!(admission instanceof Promise)) return accessOf(admission);
      const expected = work === undefined ? null : store.expectedUser(keyHash);
      if (expected !== null) work?.begin(expected);
      return admission.then(accessOf);
    },
    knownUser(header) {
      const key = header?.trim() ?? '';
      return KEY.test(key) ? store.knownUser(hashOfKey(key)) : null;
    },
    expectedUser(header) {
      const key = header?.trim() ?? '';
      return KEY.test(key) ? store.expectedUser(hashOfKey(key)) : null;
    },
    refuse: store.refuse,
    async asUser({ userId, plan, ownLimit }) {
      const hourlyLimit = limitOf(plans, { plan, ownLimit, isSuspended: false });
      return accessOf(await store.admitUser({ userId, hourlyLimit }));
    },
  };
}

/** A unit that an account was given while it was being suspended is of an hour that it can't use. */
function accessOf(admission: Admission): Access {
  if ('quota' in admission && admission.quota.limit === SUSPENDED_LIMIT) {
    return { outcome: 'accountSuspended' };
  }
  switch (admission.outcome) {
    case 'unknownKey':
      return { outcome: 'keyInvalid' };
    case 'scopeMissing':
      return { outcome: 'scopeMissing' };
    default:
      return admission;
  }
}
