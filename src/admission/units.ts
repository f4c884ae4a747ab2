// One unit that was taken, by the ledger or by Postgres in its place, as an admission that can be given back; and which admissions may be expected: as many at once as the user's last answer left units.
import { recentTable, USUAL } from '../recent-table.js';
import { guarded, STORE_ANSWER_MS, StoreAway } from '../store/store-error.js';
import { within } from '../waiting/within.js';
import {
  type Count,
  HOUR_SECONDS,
  type Ledger,
  type QuotaHour,
  type QuotaState,
  quotaState,
  type UserAdmission,
  usedOf,
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

  const refundCounted: GiveBack<ReturnType<typeof saw>> = (userId, { count, key }) =>
    refunded(parts, giveBack(parts, userId, count, key));

  /** Returns what the client may still do, and the key, where it has a count of its own. */
  function saw({ userId, keyId }: Owner, count: Count) {
    const { own, windowStartSeconds, kind } = count;
    const account = quotaState(count.limit, usedUnits(count), windowStartSeconds);
    if (kind === 'taken' && account.remaining < FEW_UNITS) mirror.sawUrgently(userId, count);
    else mirror.saw(userId, count);
    if (own === undefined || keyId === null) return { quota: account, count, key: null };
    const ownQuota = quotaState(own.limit, usedUnits(own), windowStartSeconds);
    const counted = { ...own, windowStartSeconds };
    if (kind === 'taken' && ownQuota.remaining < FEW_UNITS) mirror.sawUrgently(userId, counted, keyId);
    else mirror.saw(userId, counted, keyId);
    return { quota: tighter(account, ownQuota), count, key: { keyId, limit: own.limit } };
  }

  return {
    /** What the ledger has counted, for the copy in Postgres alone. */
    saw: (owner: Owner, count: Count): void => void saw(owner, count),
    counted(owner: Owner, count: Count): UserAdmission {
      const seen = saw(owner, count);
      if (count.kind === 'exhausted') return exhausted(owner.userId, seen.quota, count.nowSeconds);
      return new AdmittedUnit(owner, seen.quota, seen, refundCounted);
    },
    /** Of any process: one that the ledger has counted, as nearly all are. */
    giveBack: (userId: string, windowStartSeconds: number, keyId: string | null): Promise<void> =>
      giveBackOf(parts, userId, windowStartSeconds, keyId ?? undefined),
    /** The ledger is away: Postgres counts, from what this node and the mirror know. `ownLimit`: of the key alone; null: it has none. */
    async takeDirectly({ userId, keyId }: Owner, hourlyLimit: number, ownLimit: number | null): Promise<UserAdmission> {
      const key = keyId === null || ownLimit === null ? null : { keyId, limit: ownLimit };
      const own = key && (await guarded(hours.take(userId, key.limit, mirror.seen(userId, key.keyId), key.keyId)));
      const ownQuota = own && key && stateIn(own, key.limit);
      if (own?.kind === 'exhausted' && ownQuota !== null) return exhausted(userId, ownQuota, own.nowSeconds);
      const giveOwnBack = async () =>
        key && own && (await giveBackDirectly(parts, userId, key.limit, own.windowStartSeconds, key.keyId));
      const count = await guarded(hours.take(userId, hourlyLimit, mirror.seen(userId))).catch(async (error) => {
        const returned = refunded(parts, giveOwnBack());
        // Redis is asked next, and may have the key's last unit. A Postgres that is away would cost the answer more time.
        if (error instanceof StoreAway) await returned;
        throw error;
      });
      const { windowStartSeconds, nowSeconds } = count;
      const quota = stateIn(count, hourlyLimit);
      if (count.kind === 'exhausted') {
        await guarded(giveOwnBack());
        return exhausted(userId, quota, nowSeconds);
      }
      const back = async (): Promise<QuotaState | null> => {
        const left = await giveBackDirectly(parts, userId, hourlyLimit, windowStartSeconds);
        const ownLeft = await giveOwnBack();
        return left && tighter(left, ownLeft);
      };
      return new AdmittedUnit({ userId, keyId }, tighter(quota, ownQuota), null, () => refunded(parts, back()));
    },
  };
}

/** A unit that can't be given back must not cost the answer. */
async function refunded({ onProblem }: UnitParts, work: Promise<QuotaState | null>): Promise<QuotaState | null> {
  return await within(work, STORE_ANSWER_MS).catch((error: unknown) => {
    onProblem(`A unit could not be given back: ${String(error)}`);
    return null;
  });
}

/** Resolves with null where that hour is no longer kept. */
type GiveBack<Taken> = (userId: string, taken: Taken) => Promise<QuotaState | null>;

/** One that was taken: `Taken` says how. */
class AdmittedUnit<Taken> {
  readonly outcome = 'admitted';
  readonly userId: string;
  readonly keyId: string | null;
  readonly quota: QuotaState;
  readonly #taken: Taken;
  readonly #giveBack: GiveBack<Taken>;
  #refunded: Promise<QuotaState> | null = null;

  constructor({ userId, keyId }: Owner, quota: QuotaState, taken: Taken, giveBack: GiveBack<Taken>) {
    this.userId = userId;
    this.keyId = keyId;
    this.quota = quota;
    this.#taken = taken;
    this.#giveBack = giveBack;
  }

  refund(): Promise<QuotaState> {
    this.#refunded ??= this.#giveBack(this.userId, this.#taken).then((left) => left ?? this.quota);
    return this.#refunded;
  }
}

/** `key`: it was counted for itself as well, against that limit. */
async function giveBack(
  { ledger, hours, mirror }: UnitParts,
  userId: string,
  { limit, windowStartSeconds }: Count,
  key: { readonly keyId: string; readonly limit: number } | null,
) {
  const left = await ledger.giveBack(userId, windowStartSeconds, key?.keyId).catch(awayIfAway);
  if (left === 'away') {
    // The ledger learns of it when it is back.
    const hour = await hours.giveBack(userId, windowStartSeconds, 'mirrored');
    const own = key && (await hours.giveBack(userId, windowStartSeconds, 'mirrored', key.keyId));
    return hour && tighter(stateIn(hour, limit), own && stateIn(own, key.limit));
  }
  if (left === null) return null;
  mirror.sawUrgently(userId, left);
  const quota = quotaState(left.limit, usedUnits(left), windowStartSeconds);
  if (key === null || left.own === undefined) return quota;
  mirror.sawUrgently(userId, { ...left.own, windowStartSeconds }, key.keyId);
  return tighter(quota, quotaState(key.limit, usedUnits(left.own), windowStartSeconds));
}

async function giveBackDirectly(
  { ledger, hours }: UnitParts,
  userId: string,
  limit: number,
  windowStartSeconds: number,
  keyId?: string,
) {
  const left = await hours.giveBack(userId, windowStartSeconds, 'direct', keyId);
  if (left === null) return null;
  // It may be back by now, and have what Postgres counted.
  await ledger.raise([left]).catch(awayIfAway);
  return stateIn(left, limit);
}

/** A key that has no limit of its own has no count, and nothing comes back to it. */
async function giveBackOf(
  { ledger, hours, mirror }: UnitParts,
  userId: string,
  windowStartSeconds: number,
  keyId?: string,
) {
  const left = await ledger.giveBack(userId, windowStartSeconds, keyId).catch(awayIfAway);
  if (left !== 'away' && left !== null) {
    mirror.sawUrgently(userId, left);
    if (left.own !== undefined && left.own.counted > 0)
      mirror.sawUrgently(userId, { ...left.own, windowStartSeconds }, keyId);
    return;
  }
  // A ledger that has lost what it knew has it from there.
  for (const each of keyId === undefined ? [undefined] : [undefined, keyId]) {
    const hour = await guarded(hours.giveBack(userId, windowStartSeconds, 'mirrored', each));
    if (hour !== null) await ledger.raise([hour]).catch(awayIfAway);
  }
}

function stateIn(hour: QuotaHour, limit: number): QuotaState {
  return quotaState(limit, usedOf(hour), hour.windowStartSeconds);
}

/** What a client may still do: the key's own count where that ends sooner, or at the same time. */
function tighter(account: QuotaState, own: QuotaState | null): QuotaState {
  return own !== null && own.remaining <= account.remaining ? own : account;
}

function awayIfAway(error: unknown): 'away' {
  if (error instanceof StoreAway) return 'away';
  throw error;
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
