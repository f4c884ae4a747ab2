// One unit that was taken, by the ledger or by Postgres in its place, as an admission that can be given back; and which admissions may be expected: as many at once as the user's last answer left units.
import { recentTable, USUAL } from '../recent-table.js';
import { ignoreIfAway, STORE_ANSWER_MS, StoreAway } from '../store/store-error.js';
import { within } from '../waiting/within.js';
import {
  type Count,
  HOUR_SECONDS,
  type Ledger,
  type QuotaHour,
  type QuotaState,
  quotaState,
  type Tally,
  type UserAdmission,
  usedUnits,
} from './admission.js';
import type { QuotaHours } from './quota-hours.js';
import type { QuotaMirror } from './quota-mirror.js';

interface UnitParts {
  readonly ledger: Ledger;
  readonly hours: QuotaHours;
  readonly mirror: QuotaMirror;
  /** The hour of the user is used up. */
  readonly onExhausted: (userId: string, windowStartSeconds: number) => void;
  readonly onProblem: (message: string) => void;
}

/** Fewer than these are left: those of the second that a count may be old elsewhere could be given twice. */
const FEW_UNITS = 60;

interface Owner {
  readonly userId: string;
  readonly keyId: string | null;
}

export type Units = ReturnType<typeof createUnits>;

export function createUnits(parts: UnitParts) {
  const { hours, mirror, onExhausted } = parts;

  function exhausted(userId: string, quota: QuotaState, nowSeconds: number): UserAdmission {
    const { resetEpochSeconds } = quota;
    onExhausted(userId, resetEpochSeconds - HOUR_SECONDS);
    return { outcome: 'exhausted', quota, retryAfterSeconds: Math.max(1, resetEpochSeconds - nowSeconds) };
  }

  /** Returns what the client may still do. */
  function saw({ userId, keyId }: Owner, count: Count): QuotaState {
    const { own, windowStartSeconds, kind } = count;
    const account = quotaState(count.limit, usedUnits(count), windowStartSeconds);
    if (kind === 'taken' && account.remaining < FEW_UNITS) mirror.sawUrgently(userId, count);
    else mirror.saw(userId, count);
    if (own === undefined || keyId === null) return account;
    const ownQuota = quotaState(own.limit, usedUnits(own), windowStartSeconds);
    const counted = { ...own, windowStartSeconds };
    if (kind === 'taken' && ownQuota.remaining < FEW_UNITS) mirror.sawUrgently(userId, counted, keyId);
    else mirror.saw(userId, counted, keyId);
    return tighter(account, ownQuota);
  }

  return {
    /** What the ledger has counted, for the copy in Postgres alone. */
    saw: (owner: Owner, count: Count): void => void saw(owner, count),
    counted(owner: Owner, count: Count): UserAdmission {
      const quota = saw(owner, count);
      if (count.kind === 'exhausted') return exhausted(owner.userId, quota, count.nowSeconds);
      const { limit, own, windowStartSeconds } = count;
      const ownLimit = own?.limit ?? null;
      return new AdmittedUnit(parts, owner, quota, { by: 'ledger', windowStartSeconds, limit, ownLimit });
    },
    /** Of any process; of a key that has no count of its own nothing comes back to it. */
    async giveBack(userId: string, windowStartSeconds: number, keyId: string | null): Promise<void> {
      const hour = { userId, windowStartSeconds };
      await giveBack(parts, 'ledger', hour);
      if (keyId !== null) await giveBack(parts, 'ledger', { ...hour, keyId });
    },
    /**
     * The ledger is away: Postgres counts, from what this node and the mirror know. `ownLimit`: of the key alone; null: it has none. It waits as long as
     * Postgres does: the unit of an answer that comes too late for its client is there to be given back.
     */
    async takeDirectly(owner: Owner, limit: number, ownLimit: number | null): Promise<UserAdmission> {
      const { userId, keyId } = owner;
      const key = keyId === null || ownLimit === null ? null : { keyId, limit: ownLimit };
      const own = key && (await hours.take(userId, key.limit, mirror.seen(userId, key.keyId), key.keyId));
      const ownQuota = own && key && stateOf(tallyOf(own), key.limit, own.windowStartSeconds);
      if (own?.kind === 'exhausted' && ownQuota !== null) return exhausted(userId, ownQuota, own.nowSeconds);
      const giveOwnBack = async () => own && key && (await giveBack(parts, 'postgres', { ...own, keyId: key.keyId }));
      const count = await hours.take(userId, limit, mirror.seen(userId)).catch(async (error) => {
        const returned = refunded(parts, giveOwnBack());
        // Redis is asked next, and may have the key's last unit. A Postgres that is away would cost the answer more time.
        if (error instanceof StoreAway) await returned;
        throw error;
      });
      const { windowStartSeconds, nowSeconds } = count;
      const quota = stateOf(tallyOf(count), limit, windowStartSeconds);
      if (count.kind === 'exhausted') {
        await giveOwnBack();
        return exhausted(userId, quota, nowSeconds);
      }
      const taken: TakenUnit = { by: 'postgres', windowStartSeconds, limit, ownLimit: key?.limit ?? null };
      return new AdmittedUnit(parts, owner, tighter(quota, ownQuota), taken);
    },
  };
}

/** A unit that can't be given back must not cost the answer. */
async function refunded<T>({ onProblem }: UnitParts, work: Promise<T>): Promise<T | null> {
  return await within(work, STORE_ANSWER_MS).catch((error: unknown) => {
    onProblem(`A unit could not be given back: ${String(error)}`);
    return null;
  });
}

/** How a unit was taken. `ownLimit`: of its key, which was counted for itself as well; null: it wasn't. */
interface TakenUnit {
  readonly by: 'ledger' | 'postgres';
  readonly windowStartSeconds: number;
  readonly limit: number;
  readonly ownLimit: number | null;
}

class AdmittedUnit {
  readonly outcome = 'admitted';
  readonly userId: string;
  readonly keyId: string | null;
  readonly quota: QuotaState;
  readonly #parts: UnitParts;
  readonly #taken: TakenUnit;
  #refunded: Promise<QuotaState> | null = null;

  constructor(parts: UnitParts, { userId, keyId }: Owner, quota: QuotaState, taken: TakenUnit) {
    this.userId = userId;
    this.keyId = keyId;
    this.quota = quota;
    this.#parts = parts;
    this.#taken = taken;
  }

  refund(): Promise<QuotaState> {
    this.#refunded ??= refunded(this.#parts, this.#giveBack()).then((left) => left ?? this.quota);
    return this.#refunded;
  }

  async #giveBack(): Promise<QuotaState | null> {
    const { userId, keyId } = this;
    const { by, windowStartSeconds, limit, ownLimit } = this.#taken;
    const hour = { userId, windowStartSeconds };
    const left = await giveBack(this.#parts, by, hour);
    const own = keyId === null || ownLimit === null ? null : await giveBack(this.#parts, by, { ...hour, keyId });
    if (left === null) return null;
    const quota = stateOf(left, left.limit ?? limit, windowStartSeconds);
    return own === null || ownLimit === null ? quota : tighter(quota, stateOf(own, ownLimit, windowStartSeconds));
  }
}

/** Without the limit where Postgres has said it. */
type Left = Omit<Tally, 'limit'> & { readonly limit?: number };

/**
 * Gives one unit back, into the hour of a user or of a key: to the ledger that has counted it, or to Postgres where that has, where the ledger is away, and
 * where it has lost what it knew. Null: the hour is no longer kept.
 */
async function giveBack(
  { ledger, hours, mirror }: UnitParts,
  by: TakenUnit['by'],
  { userId, windowStartSeconds, keyId }: Pick<QuotaHour, 'userId' | 'windowStartSeconds' | 'keyId'>,
): Promise<Left | null> {
  if (by === 'ledger') {
    const left = await ledger.giveBack(userId, windowStartSeconds, keyId).catch(nullIfAway);
    if (left !== null) {
      mirror.sawUrgently(userId, left, keyId);
      return left;
    }
    // What the ledger has counted may not be there yet, and nothing comes back that wasn't counted.
    await mirror.flush();
  }
  const hour = await hours.giveBack(userId, windowStartSeconds, keyId);
  if (hour === null) return null;
  // It learns of it now, or when it is back.
  await ledger.raise([hour]).catch(nullIfAway);
  return tallyOf(hour);
}

const tallyOf = ({ mirrored, returned, direct, directReturned }: QuotaHour): Left => ({
  counted: mirrored,
  returned,
  direct: direct - directReturned,
});

function stateOf(left: Left, limit: number, windowStartSeconds: number): QuotaState {
  return quotaState(limit, usedUnits(left), windowStartSeconds);
}

/** What a client may still do: the key's own count where that ends sooner, or at the same time. */
function tighter(account: QuotaState, own: QuotaState | null): QuotaState {
  return own !== null && own.remaining <= account.remaining ? own : account;
}

function nullIfAway(error: unknown): null {
  ignoreIfAway(error);
  return null;
}

export type Expectations = ReturnType<typeof createExpectations>;

export class UserStanding {
  left = 0;
  asking = 0;

  /** `left`: the units that there are after an answer, 0 when it wasn't admitted. */
  answered(left: number): void {
    this.asking -= 1;
    this.left = left;
  }
}

/** `usersMax`: a user that has made room is expected again after the next answer. */
export function createExpectations(usersMax: number) {
  const users = recentTable<UserStanding>(usersMax);

  function open(userId: string): UserStanding {
    const standing = new UserStanding();
    users.set(userId, standing);
    return standing;
  }

  return {
    /** One more is asked for. */
    begin(userId: string): UserStanding {
      const standing = users.get(userId) ?? open(userId);
      standing.asking += 1;
      return standing;
    },
    /** So many units are left after an answer that was there at once. */
    saw(userId: string, left: number): void {
      (users.get(userId, USUAL) ?? open(userId)).left = left;
    },
    /** Those that are being asked for, this one among them, can all be admitted. */
    allow(userId: string): boolean {
      const standing = users.peek(userId);
      return standing !== undefined && standing.left > 0 && standing.asking <= standing.left;
    },
  };
}
