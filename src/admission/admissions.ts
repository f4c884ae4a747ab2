// Admission: the ledger asked in one step for what it knows, filled from Postgres with what it doesn't, and stood in for by Postgres while it is away.
import { type KeyLimits, rulesOf } from '../config/plans.js';
import { Unavailable } from '../errors.js';
import { guarded, ignoreIfAway, STORE_ANSWER_MS, StoreAway } from '../store/store-error.js';
import { within } from '../waiting/within.js';
import {
  type Admission,
  type Count,
  type KeyOwner,
  type KeyRecord,
  type Ledger,
  type LedgerAnswer,
  type QuotaState,
  quotaState,
  REMEMBERED_MAX,
  type UsedHour,
  type UserAdmission,
  usedUnits,
  windowStart,
} from './admission.js';
import { createFills, createKeyOwners, type Fills, type FindKey, type KeyOwners, UNKNOWN_LIMIT } from './key-owners.js';
import type { QuotaHours } from './quota-hours.js';
import { createQuotaMirror, createRefusals } from './quota-mirror.js';
import { createExpectations, createUnits, type Expectations, type Units, type UserStanding } from './units.js';

export interface AdmissionParts {
  readonly ledger: Ledger;
  readonly findKey: FindKey;
  /** What Postgres says now of a user's limit; null: it knows no such user. */
  readonly limitOf: (userId: string) => Promise<number | null>;
  readonly hours: QuotaHours;
  /** Whether Postgres counts while the ledger is away, or the ledger is to be asked again; absent: it always does. */
  readonly isPostgres?: () => Promise<boolean>;
  /** Milliseconds of a clock that only measures ages. */
  readonly clock: () => number;
  /** Null: the ledger is as it should be. */
  readonly ledgerProblem: () => string | null;
  readonly onProblem: (message: string) => void;
}

const SWEEP_MS = 600_000;
/** Each time a fill is refused something else changed the user: more than a few in a row don't happen by chance. */
const FILL_ATTEMPTS = 5;
/** Between Redis and Postgres, of one unit: each of them has its turn for seconds. */
const TURNS_MAX = 4;
/** A request whose first question found nobody who counts waits for so long, then it is a 503. */
const TURNS_MS = STORE_ANSWER_MS - 500;

export type AdmissionStore = ReturnType<typeof createAdmissions>;

/** A unit is counted by user, so several keys and the dashboard share one count. */
export function createAdmissions(parts: AdmissionParts) {
  const { ledger, findKey, hours, clock, limitOf, onProblem } = parts;
  const mirror = createQuotaMirror(hours, {
    onDirect: (direct) => ledger.raise(direct),
    onFailure: (error) => onProblem(`The counts of this hour can't be copied to Postgres: ${String(error)}`),
    usersMax: REMEMBERED_MAX,
  });
  const refusals = createRefusals(hours, onProblem);
  const fills = createFills({ ledger, findKey, hours, limitOf });
  const owners = createKeyOwners({ ledger, findKey, fills, clock, onProblem });
  const units = createUnits({ ledger, hours, mirror, onExhausted: refusals.count, onProblem });
  const takes = { ledger, findKey, fills, owners, units, isPostgres: parts.isPostgres ?? (async () => true) };
  const expectations = createExpectations(REMEMBERED_MAX);
  const sweeping = setInterval(() => {
    hours.sweep().catch((error: unknown) => onProblem(`Old hours can't be removed: ${String(error)}`));
  }, SWEEP_MS).unref();

  return {
    /** The key (its SHA-256 as 64 hex characters) is live, and one unit is taken. Throws Failure('unavailable') when nobody can tell. */
    admit(keyHash: string): Admission | Promise<Admission> {
      const known = owners.fresh(keyHash);
      if (known === null) return admitUnknown(takes, keyHash, expectations);
      const first = ledger.take(known.userId, keyHash);
      if ('limit' in first && isAgreed(first.limit, first.rules, known)) {
        const admission = units.counted(known, first);
        expectations.saw(known.userId, admission.quota.remaining);
        return admission;
      }
      return admitKnown(takes, { keyHash, owner: known, first }, expectations.begin(known.userId));
    },
    /**
     * To be asked before `admit`, or while it asks: its user was admitted lately, with units left for all that are being asked for. So work on the
     * request may begin, as long as nothing of it gets out before `admit` has answered; what comes to nothing stays within the quota.
     * Returns the id of that user, which never changes for a key; null: nothing is expected.
     */
    expectedUser: (keyHash: string): string | null => likelyUser(owners.fresh(keyHash), expectations),
    /** The user (an id) whose key it is or was, as this process remembers; null: it doesn't know. It costs nothing, and admits nobody. */
    knownUser: owners.userOf,
    /** Asks now what the next request with one of these keys would wait for. It takes nothing. Rejects where one can't be asked about. */
    prepare: async (keyHashes: readonly string[]): Promise<void> =>
      void (await Promise.all(keyHashes.map((keyHash) => prepareOne(takes, keyHash)))),
    /** Counts a scan of the user that was refused before it was admitted. */
    refuse: (userId: string): void => refusals.count(userId, windowStart(Math.floor(clock() / 1000))),
    /** Takes one unit for a user whom Postgres has just vouched for. */
    admitUser: ({ userId, hourlyLimit }: LimitedUser): Promise<UserAdmission> => admitUser(takes, userId, hourlyLimit),
    /** Gives a unit back that any process has taken, once for each call. Rejects where nobody can count it now. */
    giveBack: units.giveBack,
    /** What is left of the hour, without taking a unit. Throws Failure('unavailable'). */
    quotaOf: (user: LimitedUser): Promise<QuotaState> => quotaOf(ledger, hours, fills, user),
    ...changesOf(ledger, owners),
    /** Null when all is well, otherwise what works less well than it should: for the operator. */
    problem: parts.ledgerProblem,
    /** What the user has used and was refused in each hour of the last day, the oldest first. */
    async lastDay(userId: string): Promise<readonly UsedHour[]> {
      await within(Promise.all([mirror.flush(), refusals.flush()]), STORE_ANSWER_MS).catch(() => undefined);
      return await hours.lastDay(userId);
    },
    /** Writes what is counted and not yet in Postgres; rejects when that can't be done. */
    flush: (): Promise<void> => within(mirror.flush(), STORE_ANSWER_MS),
    /** The same, for the last time. */
    async stop(): Promise<void> {
      clearInterval(sweeping);
      mirror.stop();
      refusals.stop();
      await within(Promise.all([mirror.flush(), refusals.flush()]), STORE_ANSWER_MS).catch((error: unknown) =>
        onProblem(`The last counts of this hour didn't reach Postgres: ${String(error)}`),
      );
    },
  };
}

function likelyUser(known: KeyRecord | null, expectations: Expectations): string | null {
  const isLikely = known !== null && (known.rules?.allows('scan') ?? true) && expectations.allow(known.userId);
  return isLikely ? known.userId : null;
}

/** A key, by its SHA-256 as 64 hex characters, and whose it is. */
interface NamedKey {
  readonly userId: string;
  readonly keyHash: string;
}

/** What Postgres has of keys and limits, told to every node. All throw Failure('unavailable') when one can't be reached. */
function changesOf(ledger: Ledger, owners: KeyOwners) {
  return {
    /**
     * Call it after Postgres has committed the revocation. From its return on every node refuses the key, also one whose look-up
     * is in flight. Throws Failure('unavailable') when a node can't be reached: then the key may still be admitted there.
     */
    async revoke({ userId, keyHash }: NamedKey): Promise<void> {
      owners.forget(keyHash);
      await ledger.revoke(userId, keyHash).catch(unavailable);
    },
    /** Call it after Postgres has committed another plan: the next admission on every node counts against the new limit. */
    async setLimit(userId: string, hourlyLimit: number): Promise<void> {
      await ledger.setLimit(userId, hourlyLimit).catch(unavailable);
    },
    async setKeyLimits({ userId, keyHash, keyId }: NamedKey & KeyOwner, limits: KeyLimits): Promise<void> {
      // What this process remembers of it is looked up again.
      owners.forget(keyHash);
      await ledger.setKey(userId, { hash: keyHash, keyId, rules: rulesOf(limits) }).catch(unavailable);
    },
  };
}

interface LimitedUser {
  readonly userId: string;
  readonly hourlyLimit: number;
}

interface Takes extends Required<Pick<AdmissionParts, 'ledger' | 'findKey' | 'isPostgres'>> {
  readonly fills: Fills;
  readonly owners: KeyOwners;
  readonly units: Units;
}

function isAgreed(limit: number, rules: string | undefined, { hourlyLimit, rules: known }: KeyRecord): boolean {
  return (limit === hourlyLimit && rules === known?.text) || hourlyLimit === UNKNOWN_LIMIT;
}

async function prepareOne({ owners, fills }: Takes, keyHash: string): Promise<void> {
  const owner = await owners.identify(keyHash);
  if (owner !== null) await fills.key(keyHash, owner).catch(ignoreIfAway);
}

async function admitUnknown(takes: Takes, keyHash: string, expectations: Expectations): Promise<Admission> {
  const owner = await takes.owners.identify(keyHash);
  if (owner === null) return { outcome: 'keyInvalid' };
  const admission = await admitKey(takes, { keyHash, owner, first: takes.ledger.take(owner.userId, keyHash) });
  if (admission.outcome === 'admitted') expectations.saw(admission.userId, admission.quota.remaining);
  return admission;
}

async function admitKnown(takes: Takes, take: FirstTake, standing: UserStanding): Promise<Admission> {
  let left = 0;
  try {
    const admission = await admitKey(takes, take);
    if (admission.outcome === 'admitted') left = admission.quota.remaining;
    return admission;
  } finally {
    standing.answered(left);
  }
}

interface FirstTake {
  readonly keyHash: string;
  readonly owner: KeyRecord;
  readonly first: LedgerAnswer | Promise<LedgerAnswer>;
}

/** Takes a unit for the key, from the ledger where it has one, otherwise from Postgres. */
async function admitKey(takes: Takes, take: FirstTake): Promise<Admission> {
  const { ledger, findKey, units } = takes;
  const { keyHash, owner } = take;
  const again = (): FirstTake => ({ ...take, first: ledger.take(owner.userId, keyHash) });
  const fromLedger = (turn: number) => takeForKey(takes, turn === 0 ? take : again());
  return await inTurns(takes, fromLedger, async () => {
    // Nobody but Postgres can say whether the key is still live.
    const record = await findKey(keyHash);
    if (record === null) return { outcome: 'keyInvalid' };
    const { rules } = record;
    if (rules !== undefined && !rules.allows('scan')) return { outcome: 'scopeMissing' };
    return await units.takeDirectly(record, record.hourlyLimit, rules?.hourlyLimit ?? null);
  });
}

/** Redis and Postgres are asked in turns until one of them counts: each of them throws StoreAway while it may not. */
async function inTurns<T extends UserAdmission | Admission>(
  { isPostgres }: Takes,
  fromLedger: (turn: number) => Promise<T>,
  fromPostgres: () => Promise<T>,
): Promise<T> {
  const first = await orAway(fromLedger(0));
  if (first !== null) return first;
  let isLate = false;
  const others = async (): Promise<T> => {
    for (let turn = 1; turn <= TURNS_MAX && !isLate; turn += 1) {
      const counted = ((await isPostgres()) ? await orAway(fromPostgres()) : null) ?? (await orAway(fromLedger(turn)));
      if (counted !== null) return counted;
    }
    throw new Unavailable('storeDown');
  };
  const counting = others();
  try {
    return await guarded(counting, TURNS_MS);
  } catch (error) {
    isLate = true;
    // Nobody gets the unit of a late answer.
    counting.then(
      async (late) => late.outcome === 'admitted' && (await late.refund()),
      () => undefined,
    );
    throw error;
  }
}

/** Null: it is away, or it isn't its turn. */
async function orAway<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof StoreAway) return null;
    throw error;
  }
}

async function takeForKey(
  { ledger, fills, owners, units }: Takes,
  { keyHash, owner: known, first }: FirstTake,
): Promise<Admission> {
  let owner = known;
  for (let attempt = 0; attempt < FILL_ATTEMPTS; attempt += 1) {
    const answer = await (attempt === 0 ? first : ledger.take(owner.userId, keyHash));
    if (answer.kind === 'revoked') return { outcome: 'keyInvalid' };
    if (answer.kind === 'missing') {
      if ((await fills.key(keyHash, owner)) === null) return { outcome: 'keyInvalid' };
      continue;
    }
    const isCounted = 'limit' in answer;
    if (isAgreed(isCounted ? answer.limit : owner.hourlyLimit, answer.rules, owner)) {
      return isCounted ? units.counted(owner, answer) : refusalOf(answer.kind);
    }
    // Before Postgres is waited for: it may have to count next.
    if (isCounted) units.saw(owner, answer);
    const agreed = await owners.agreed(keyHash, owner, isCounted ? answer.limit : owner.hourlyLimit);
    if (agreed === null) {
      if (isCounted) await giveBack(units, owner, answer);
      return { outcome: 'keyInvalid' };
    }
    const { record, isFilled } = agreed;
    const hasOtherRules = isFilled && record.rules?.text !== answer.rules;
    if (isCounted && !hasOtherRules && stands(answer, record.hourlyLimit)) {
      return units.counted(owner, { ...answer, limit: record.hourlyLimit });
    }
    if (!isCounted && !hasOtherRules) return refusalOf(answer.kind);
    // By rules or a limit that are no longer so: it is taken again.
    if (isCounted) await giveBack(units, owner, answer);
    owner = record;
  }
  throw new Unavailable('accountChanging');
}

function refusalOf(kind: 'expired' | 'unscoped'): Admission {
  return { outcome: kind === 'expired' ? 'keyInvalid' : 'scopeMissing' };
}

/** Whether the answer is the same by the limit that holds now. */
const stands = (answer: Count, limit: number): boolean =>
  answer.kind === 'taken' ? usedUnits(answer) <= limit : limit <= answer.limit;

async function giveBack(
  units: Units,
  { userId, keyId }: { readonly userId: string; readonly keyId: string | null },
  { kind, own, windowStartSeconds }: Count,
) {
  if (kind === 'taken') await units.giveBack(userId, windowStartSeconds, own === undefined ? null : keyId);
}

async function admitUser(takes: Takes, userId: string, hourlyLimit: number): Promise<UserAdmission> {
  const owner = { userId, keyId: null };
  return await inTurns(
    takes,
    () => takeForUser(takes, owner, hourlyLimit),
    () => takes.units.takeDirectly(owner, hourlyLimit, null),
  );
}

async function takeForUser(
  { ledger, fills, units }: Takes,
  owner: { readonly userId: string; readonly keyId: null },
  hourlyLimit: number,
): Promise<UserAdmission> {
  const { userId } = owner;
  for (let attempt = 0; attempt < FILL_ATTEMPTS; attempt += 1) {
    const answer = await ledger.take(userId, null);
    if (answer.kind === 'taken' || answer.kind === 'exhausted') {
      if (answer.limit === hourlyLimit) return units.counted(owner, answer);
      units.saw(owner, answer);
      const limit = await fills.user(userId, hourlyLimit).catch(() => answer.limit);
      if (stands(answer, limit)) return units.counted(owner, { ...answer, limit });
      await giveBack(units, owner, answer);
    } else await fills.user(userId, hourlyLimit);
  }
  throw new Unavailable('accountChanging');
}

async function quotaOf(
  ledger: Ledger,
  hours: QuotaHours,
  fills: Fills,
  { userId, hourlyLimit }: LimitedUser,
): Promise<QuotaState> {
  try {
    const known = await ledger.look(userId);
    if (known === null) await fills.user(userId, hourlyLimit);
    const hour = known ?? (await ledger.look(userId));
    if (hour !== null) return quotaState(hourlyLimit, usedUnits(hour), hour.windowStartSeconds);
  } catch (error) {
    ignoreIfAway(error);
  }
  const { used, windowStartSeconds } = await guarded(hours.present(userId));
  return quotaState(hourlyLimit, used, windowStartSeconds);
}

function unavailable(error: unknown): never {
  ignoreIfAway(error);
  throw new Unavailable('nodesNotReached', { cause: error });
}
