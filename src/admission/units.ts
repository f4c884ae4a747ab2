// One unit that was taken, by the ledger or by Postgres in its place, as an admission that can be given back.
import { guarded, STORE_ANSWER_MS } from '../store/guard.js';
import { StoreAway } from '../store/store-error.js';
import { within } from '../waiting/within.js';
import { type QuotaState, quotaState, type UserAdmission } from './admission.js';
import type { Count, Ledger } from './ledger.js';
import type { QuotaHours } from './quota-hours.js';
import type { QuotaMirror } from './quota-mirror.js';

export interface UnitParts {
  readonly ledger: Ledger;
  readonly hours: QuotaHours;
  readonly mirror: QuotaMirror;
  readonly onProblem: (message: string) => void;
}

interface Owner {
  readonly userId: string;
  readonly keyId: string | null;
}

export interface Units {
  /** What the ledger has counted. */
  counted(owner: Owner, count: Count): UserAdmission;
  /** The ledger is away: Postgres counts, from what this node and the mirror know. */
  takeDirectly(owner: Owner, hourlyLimit: number): Promise<UserAdmission>;
}

export function createUnits({ ledger, hours, mirror, onProblem }: UnitParts): Units {
  /** A unit that can't be given back must not cost the answer. */
  async function refunded(work: Promise<QuotaState | null>): Promise<QuotaState | null> {
    return await within(work, STORE_ANSWER_MS).catch((error: unknown) => {
      onProblem(`A unit could not be given back: ${String(error)}`);
      return null;
    });
  }

  return {
    counted({ userId, keyId }, count) {
      mirror.saw(userId, count);
      if (count.kind === 'exhausted') return exhausted(count);
      const { windowStartSeconds } = count;
      const giveBack = async (): Promise<QuotaState | null> => {
        const left = await ledger.giveBack(userId, windowStartSeconds).catch(nullIfAway);
        return left === null ? null : quotaState(left.limit, left.counted + left.direct, windowStartSeconds);
      };
      const quota = quotaState(count.limit, count.counted + count.direct, windowStartSeconds);
      return { outcome: 'admitted', userId, keyId, quota, refund: () => refunded(giveBack()) };
    },
    async takeDirectly({ userId, keyId }, hourlyLimit) {
      const count = await guarded(hours.take(userId, hourlyLimit, mirror.seen(userId)));
      const { windowStartSeconds, mirrored, direct, nowSeconds } = count;
      const asCount = { limit: hourlyLimit, counted: mirrored, direct, windowStartSeconds, nowSeconds };
      if (count.kind === 'exhausted') return exhausted({ kind: 'exhausted', ...asCount });
      const giveBack = async (): Promise<QuotaState | null> => {
        const left = await hours.giveBack(userId, windowStartSeconds);
        return left === null ? null : quotaState(hourlyLimit, left.mirrored + left.direct, windowStartSeconds);
      };
      const quota = quotaState(hourlyLimit, mirrored + direct, windowStartSeconds);
      return { outcome: 'admitted', userId, keyId, quota, refund: () => refunded(giveBack()) };
    },
  };
}

function exhausted({ limit, counted, direct, windowStartSeconds, nowSeconds }: Count): UserAdmission {
  const quota = quotaState(limit, counted + direct, windowStartSeconds);
  return { outcome: 'exhausted', quota, retryAfterSeconds: Math.max(1, quota.resetEpochSeconds - nowSeconds) };
}

function nullIfAway(error: unknown): null {
  if (error instanceof StoreAway) return null;
  throw error;
}
