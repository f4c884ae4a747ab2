// One unit that was taken, by the ledger or by Postgres in its place, as an admission that can be given back; and which admissions may be expected: as many at once as the user's last answer left units.
import { recentTable } from '../recent-table.js';
import { guarded, STORE_ANSWER_MS, StoreAway } from '../store/store-error.js';
import { within } from '../waiting/within.js';
import { type QuotaState, quotaState, type UserAdmission, usedOf } from './admission.js';
import { type Count, type Ledger, usedUnits } from './ledger.js';
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
  /** Of any process: one that the ledger has counted, as nearly all are. */
  giveBack(userId: string, windowStartSeconds: number): Promise<void>;
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
      const { windowStartSeconds } = count;
      const quota = quotaState(count.limit, usedUnits(count), windowStartSeconds);
      if (count.kind === 'exhausted') return exhausted(quota, count.nowSeconds);
      const giveBack = async (): Promise<QuotaState | null> => {
        const left = await ledger.giveBack(userId, windowStartSeconds).catch(awayIfAway);
        if (left === 'away') {
          // The ledger learns of it when it is back.
          const hour = await hours.giveBack(userId, windowStartSeconds, 'mirrored');
          return hour === null ? null : quotaState(count.limit, usedOf(hour), windowStartSeconds);
        }
        if (left === null) return null;
        mirror.returned(userId, left);
        return quotaState(left.limit, usedUnits(left), windowStartSeconds);
      };
      return { outcome: 'admitted', userId, keyId, quota, refund: () => refunded(giveBack()) };
    },
    async giveBack(userId, windowStartSeconds) {
      const left = await ledger.giveBack(userId, windowStartSeconds).catch(awayIfAway);
      if (left !== 'away' && left !== null) {
        mirror.returned(userId, left);
        return;
      }
      // A ledger that has lost what it knew has it from there.
      const hour = await guarded(hours.giveBack(userId, windowStartSeconds, 'mirrored'));
      if (hour !== null) await ledger.raise([hour]).catch(awayIfAway);
    },
    async takeDirectly({ userId, keyId }, hourlyLimit) {
      const count = await guarded(hours.take(userId, hourlyLimit, mirror.seen(userId)));
      const { windowStartSeconds, nowSeconds } = count;
      const quota = quotaState(hourlyLimit, usedOf(count), windowStartSeconds);
      if (count.kind === 'exhausted') return exhausted(quota, nowSeconds);
      const giveBack = async (): Promise<QuotaState | null> => {
        const left = await hours.giveBack(userId, windowStartSeconds, 'direct');
        if (left === null) return null;
        // It may be back by now, and have what Postgres counted.
        await ledger.raise([left]).catch(awayIfAway);
        return quotaState(hourlyLimit, usedOf(left), windowStartSeconds);
      };
      return { outcome: 'admitted', userId, keyId, quota, refund: () => refunded(giveBack()) };
    },
  };
}

function exhausted(quota: QuotaState, nowSeconds: number): UserAdmission {
  return { outcome: 'exhausted', quota, retryAfterSeconds: Math.max(1, quota.resetEpochSeconds - nowSeconds) };
}

function awayIfAway(error: unknown): 'away' {
  if (error instanceof StoreAway) return 'away';
  throw error;
}

export interface Expectations {
  /** One more is asked for; `left`, when it is answered: the units that there are after it, 0 when it wasn't admitted. */
  begin(userId: string): (left: number) => void;
  /** Those that are being asked for, this one among them, can all be admitted. */
  allow(userId: string): boolean;
}

interface Standing {
  left: number;
  asking: number;
}

/** `usersMax`: a user that has made room is expected again after the next answer. */
export function createExpectations(usersMax: number): Expectations {
  const users = recentTable<Standing>(usersMax);

  function standingOf(userId: string): Standing {
    const known = users.get(userId);
    if (known !== undefined) return known;
    const standing = { left: 0, asking: 0 };
    users.set(userId, standing);
    return standing;
  }

  return {
    begin(userId) {
      const standing = standingOf(userId);
      standing.asking += 1;
      return (left) => {
        standing.asking -= 1;
        standing.left = left;
      };
    },
    allow(userId) {
      const standing = users.peek(userId);
      return standing !== undefined && standing.left > 0 && standing.asking <= standing.left;
    },
  };
}
