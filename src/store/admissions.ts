// Admission: the ledger asked in one step for what it knows, filled from Postgres with what it doesn't, and stood in for by Postgres while it is away.
import { LRUCache } from 'lru-cache';
import { Failure } from '../errors.js';
import {
  type Admission,
  type AdmissionStore,
  type KeyOwner,
  type KeyRecord,
  type QuotaHour,
  type QuotaState,
  quotaState,
  type UserAdmission,
  windowStart,
} from './admission.js';
import { createExpectations } from './expectations.js';
import { guarded, STORE_ANSWER_MS } from './guard.js';
import { type Count, type Ledger, LedgerAway } from './ledger.js';
import type { Lookups } from './lookups.js';
import type { QuotaHours } from './quota-hours.js';
import { createQuotaMirror } from './quota-mirror.js';
import { within } from './within.js';

export interface AdmissionParts {
  readonly ledger: Ledger;
  readonly lookups: Lookups;
  /** What Postgres says now of a user's limit; null: it knows no such user. */
  readonly limitOf: (userId: string) => Promise<number | null>;
  readonly hours: QuotaHours;
  /** Milliseconds of a clock that only measures ages. */
  readonly clock: () => number;
  /** Null: the ledger is as it should be. */
  readonly ledgerProblem: () => string | null;
  readonly onProblem: (message: string) => void;
}

/** Keys whose owner is remembered in this process, some 300 bytes each; the one that was used least recently makes room. */
const OWNERS_MAX = 100_000;
/** After this Postgres is asked again, for what other processes did to the key or its plan without telling the ledger. */
const FRESH_MS = 15_000;
/** A known key doesn't wait longer than this for Postgres: what it said last is taken, and it is asked again a while later. */
const REFRESH_TIMEOUT_MS = 250;
const REFRESH_RETRY_MS = 1_000;
/** The ledger is told again whose key it is after this, so that it knows it of every key that was used within a day. */
const OWNER_MS = 3_600_000;
/** What other nodes may not know of a count when the ledger goes away, and what a kill may cost. */
const MIRROR_MS = 1_000;
const SWEEP_MS = 600_000;
/** Each time a fill is refused something else changed the user: more than a few in a row don't happen by chance. */
const FILL_ATTEMPTS = 5;
const DOWN_RETRY_SECONDS = 2;

interface Remembered extends KeyRecord {
  readonly verifiedAtMs: number;
  /** When the ledger was told whose key it is. */
  readonly toldAtMs: number;
}

/** A unit is counted by user, so several keys and the dashboard share one count. */
export function createAdmissions(parts: AdmissionParts): AdmissionStore {
  const { ledger, lookups, hours, clock } = parts;
  const owners = new LRUCache<string, Remembered>({ max: OWNERS_MAX });
  const expectations = createExpectations();
  const fills = new Map<string, Promise<KeyRecord | null>>();
  const mirror = createQuotaMirror(hours, (direct) => ledger.raise(direct));
  const timers = [setInterval(copy, MIRROR_MS), setInterval(sweep, SWEEP_MS)];
  for (const timer of timers) timer.unref();
  let isMirrored = true;

  function copy(): void {
    mirror.flush().then(
      () => {
        isMirrored = true;
      },
      (error: unknown) => {
        if (isMirrored) parts.onProblem(`The counts of this hour can't be copied to Postgres: ${String(error)}`);
        isMirrored = false;
      },
    );
  }

  function sweep(): void {
    hours.sweep().catch((error: unknown) => parts.onProblem(`Old hours can't be removed: ${String(error)}`));
  }

  function remember(keyHash: string, record: KeyRecord, verifiedAtMs: number, toldAtMs: number): Remembered {
    const remembered = { ...record, verifiedAtMs, toldAtMs };
    owners.set(keyHash, remembered);
    return remembered;
  }

  /** What Postgres said just now; the ledger hears whose key it is, for when Postgres is away. Nobody waits for that. */
  function verified(keyHash: string, record: KeyRecord, toldAtMs: number | null): Remembered {
    const nowMs = clock();
    if (toldAtMs !== null && Math.abs(nowMs - toldAtMs) < OWNER_MS) return remember(keyHash, record, nowMs, toldAtMs);
    ledger.rememberOwner(keyHash, record).catch((error: unknown) => {
      if (!(error instanceof LedgerAway)) parts.onProblem(`The owner of a key was not told: ${String(error)}`);
    });
    return remember(keyHash, record, nowMs, nowMs);
  }

  /** Whose key it is, as Postgres said lately; whether it is still live, the ledger says. Null: Postgres has no such live key. */
  async function identify(keyHash: string): Promise<KeyRecord | null> {
    const old = owners.get(keyHash);
    if (old === undefined) return await introduce(keyHash);
    try {
      const record = await within(lookups.find(keyHash), REFRESH_TIMEOUT_MS);
      if (record === null) {
        owners.delete(keyHash);
        return null;
      }
      // A plan that was changed without telling the ledger (sluice user plan).
      if (record.hourlyLimit !== old.hourlyLimit) await fill(keyHash, record).catch(rethrowUnlessAway);
      return verified(keyHash, record, old.toldAtMs);
    } catch (error) {
      // A known key goes on without Postgres, until that answers: any other reason would meet an unknown key as well.
      if (!(error instanceof Error)) throw error;
      return owners.get(keyHash) === old
        ? remember(keyHash, old, clock() - FRESH_MS + REFRESH_RETRY_MS, old.toldAtMs)
        : old;
    }
  }

  async function introduce(keyHash: string): Promise<KeyRecord | null> {
    try {
      const record = await lookups.find(keyHash);
      return record === null ? null : verified(keyHash, record, null);
    } catch (error) {
      // Without Postgres: what another node told the ledger, which still says whether the key is live.
      const owner = await ledger.ownerOf(keyHash).catch(() => null);
      if (owner === null) throw error;
      const retryMs = clock() - FRESH_MS + REFRESH_RETRY_MS;
      return remember(keyHash, { ...owner, hourlyLimit: UNKNOWN_LIMIT }, retryMs, clock());
    }
  }

  function fresh(keyHash: string): Remembered | null {
    const known = owners.get(keyHash);
    return known !== undefined && Math.abs(clock() - known.verifiedAtMs) < FRESH_MS ? known : null;
  }

  /** Tells the ledger what Postgres says now of the key and its user; null when the key isn't live any more. */
  function fill(keyHash: string, owner: KeyOwner): Promise<KeyRecord | null> {
    const running = fills.get(keyHash);
    if (running !== undefined) return running;
    const filling = readAndFill(keyHash, owner).finally(() => fills.delete(keyHash));
    fills.set(keyHash, filling);
    return filling;
  }

  async function readAndFill(keyHash: string, { userId, keyId }: KeyOwner): Promise<KeyRecord | null> {
    const token = await ledger.begin(userId);
    const [record, known] = await Promise.all([lookups.find(keyHash), readHours(userId)]);
    if (record === null) return null;
    const key = { hash: keyHash, keyId };
    // Refused: something changed in between, and whoever asked for it asks again.
    const isFilled = await ledger.fill(userId, token, { key, hourlyLimit: record.hourlyLimit, hours: known });
    if (isFilled) await ledger.rememberOwner(keyHash, { userId, keyId });
    return record;
  }

  /**
   * The ledger's limit isn't what Postgres said of the key lately: a plan that was changed without telling the ledger (sluice user plan,
   * PLANS, a restored backup), or one that the ledger was told of and this process was not. Postgres is asked again, and both take
   * that over. Without Postgres the ledger's counts, until the key is looked up again. Null: Postgres says that the key has ended.
   */
  async function agreedLimit(keyHash: string, owner: KeyRecord, ledgerLimit: number): Promise<number | null> {
    const record = await fill(keyHash, owner).catch(() => 'unknown' as const);
    if (record === null) return null;
    const limit = record === 'unknown' ? ledgerLimit : record.hourlyLimit;
    const known = owners.get(keyHash);
    if (known !== undefined) remember(keyHash, { ...known, hourlyLimit: limit }, known.verifiedAtMs, known.toldAtMs);
    return limit;
  }

  /** The same for a user who is signed in: what the caller knows was read before the token, so it is read again. */
  async function fillUser(userId: string, hourlyLimit: number): Promise<number> {
    const token = await ledger.begin(userId);
    const [limit, known] = await Promise.all([guarded(parts.limitOf(userId)), readHours(userId)]);
    await ledger.fill(userId, token, { key: null, hourlyLimit: limit ?? hourlyLimit, hours: known });
    return limit ?? hourlyLimit;
  }

  /** A unit that can't be given back must not cost the answer. */
  async function refunded(work: Promise<QuotaState | null>): Promise<QuotaState | null> {
    return await within(work, STORE_ANSWER_MS).catch((error: unknown) => {
      parts.onProblem(`A unit could not be given back: ${String(error)}`);
      return null;
    });
  }

  async function readHours(userId: string) {
    return await guarded(hours.read(userId));
  }

  function admitted(owner: { userId: string; keyId: string | null }, count: Count): UserAdmission {
    const { userId, keyId } = owner;
    mirror.saw(userId, count);
    const { windowStartSeconds } = count;
    if (count.kind === 'exhausted') return exhausted(count);
    const giveBack = async (): Promise<QuotaState | null> => {
      const left = await ledger.giveBack(userId, windowStartSeconds).catch(nullIfAway);
      return left === null ? null : quotaState(left.limit, left.counted + left.direct, windowStartSeconds);
    };
    const refund = (): Promise<QuotaState | null> => refunded(giveBack());
    const quota = quotaState(count.limit, count.counted + count.direct, windowStartSeconds);
    return { outcome: 'admitted', userId, keyId, quota, refund };
  }

  /** The ledger is away: Postgres counts, from what this node and the mirror know. */
  async function admitDirectly(
    owner: { userId: string; keyId: string | null },
    hourlyLimit: number,
  ): Promise<UserAdmission> {
    const { userId, keyId } = owner;
    const count = await guarded(hours.take(userId, hourlyLimit, mirror.seen(userId)));
    const { windowStartSeconds, mirrored, direct, nowSeconds } = count;
    const asCount = { limit: hourlyLimit, counted: mirrored, direct, windowStartSeconds, nowSeconds };
    if (count.kind === 'exhausted') return exhausted({ kind: 'exhausted', ...asCount });
    const giveBack = async (): Promise<QuotaState | null> => {
      const left = await hours.giveBack(userId, windowStartSeconds);
      return left === null ? null : quotaState(hourlyLimit, left.mirrored + left.direct, windowStartSeconds);
    };
    const refund = (): Promise<QuotaState | null> => refunded(giveBack());
    return {
      outcome: 'admitted',
      userId,
      keyId,
      quota: quotaState(hourlyLimit, mirrored + direct, windowStartSeconds),
      refund,
    };
  }

  async function admitKeyDirectly(keyHash: string): Promise<Admission> {
    // Nobody but Postgres can say whether the key is still live.
    const record = await lookups.find(keyHash);
    if (record === null) return { outcome: 'unknownKey' };
    return await admitDirectly(record, record.hourlyLimit);
  }

  async function decide(keyHash: string, known: KeyRecord | null): Promise<Admission> {
    let owner = known ?? (await identify(keyHash));
    if (owner === null) return { outcome: 'unknownKey' };
    try {
      for (let attempt = 0; attempt < FILL_ATTEMPTS; attempt += 1) {
        const answer = await ledger.take(owner.userId, keyHash);
        if (answer.kind === 'revoked') return { outcome: 'unknownKey' };
        if (answer.kind !== 'missing') {
          if (answer.limit === owner.hourlyLimit || owner.hourlyLimit === UNKNOWN_LIMIT) return admitted(owner, answer);
          const limit = await agreedLimit(keyHash, owner, answer.limit);
          if (limit === null) {
            if (answer.kind === 'taken') await ledger.giveBack(owner.userId, answer.windowStartSeconds);
            return { outcome: 'unknownKey' };
          }
          if (answer.kind === 'taken' || limit <= answer.limit) return admitted(owner, { ...answer, limit });
          owner = { ...owner, hourlyLimit: limit };
          continue;
        }
        if ((await fill(keyHash, owner)) === null) return { outcome: 'unknownKey' };
      }
    } catch (error) {
      if (error instanceof LedgerAway) return await admitKeyDirectly(keyHash);
      throw error;
    }
    throw new Failure('unavailable', 'The account changes too fast', DOWN_RETRY_SECONDS);
  }

  return {
    async admit(keyHash) {
      const known = fresh(keyHash);
      if (known === null) {
        const admission = await decide(keyHash, null);
        if (admission.outcome === 'admitted') expectations.begin(admission.userId)(admission.quota.remaining);
        return admission;
      }
      const answered = expectations.begin(known.userId);
      let left = 0;
      try {
        const admission = await decide(keyHash, known);
        if (admission.outcome === 'admitted') left = admission.quota.remaining;
        return admission;
      } finally {
        answered(left);
      }
    },
    expectedUser(keyHash) {
      const known = fresh(keyHash);
      return known !== null && expectations.allow(known.userId) ? known.userId : null;
    },
    async admitUser({ userId, hourlyLimit }) {
      const owner = { userId, keyId: null };
      try {
        for (let attempt = 0; attempt < FILL_ATTEMPTS; attempt += 1) {
          const answer = await ledger.take(userId, null);
          if (answer.kind === 'taken' || answer.kind === 'exhausted') {
            if (answer.limit === hourlyLimit) return admitted(owner, answer);
            const limit = await fillUser(userId, hourlyLimit).catch(() => answer.limit);
            if (answer.kind === 'taken' || limit <= answer.limit) return admitted(owner, { ...answer, limit });
          } else await fillUser(userId, hourlyLimit);
        }
      } catch (error) {
        if (error instanceof LedgerAway) return await admitDirectly(owner, hourlyLimit);
        throw error;
      }
      throw new Failure('unavailable', 'The account changes too fast', DOWN_RETRY_SECONDS);
    },
    async quotaOf({ userId, hourlyLimit }) {
      try {
        const known = await ledger.look(userId);
        if (known === null) await fillUser(userId, hourlyLimit);
        const hour = known ?? (await ledger.look(userId));
        if (hour !== null) return quotaState(hourlyLimit, hour.counted + hour.direct, hour.windowStartSeconds);
      } catch (error) {
        if (!(error instanceof LedgerAway)) throw error;
      }
      return quotaInHours(hourlyLimit, await readHours(userId), windowStart(Math.floor(clock() / 1000)));
    },
    async revoke({ userId, keyHash }) {
      owners.delete(keyHash);
      await ledger.revoke(userId, keyHash).catch(unavailable);
    },
    async setLimit(userId, hourlyLimit) {
      await ledger.setLimit(userId, hourlyLimit).catch(unavailable);
    },
    problem: parts.ledgerProblem,
    async flush() {
      await within(mirror.flush(), STORE_ANSWER_MS);
    },
    async stop() {
      for (const timer of timers) clearInterval(timer);
      await within(mirror.flush(), STORE_ANSWER_MS).catch((error: unknown) =>
        parts.onProblem(`The last counts of this hour didn't reach Postgres: ${String(error)}`),
      );
    },
  };
}

/** Of a key that only the ledger vouches for: it isn't compared with anything before Postgres is back. */
const UNKNOWN_LIMIT = -1;

function exhausted({ limit, counted, direct, windowStartSeconds, nowSeconds }: Count): UserAdmission {
  const quota = quotaState(limit, counted + direct, windowStartSeconds);
  return { outcome: 'exhausted', quota, retryAfterSeconds: Math.max(1, quota.resetEpochSeconds - nowSeconds) };
}

/** What Postgres knows of it, for a ledger that is away. */
function quotaInHours(limit: number, hours: readonly QuotaHour[], windowStartSeconds: number): QuotaState {
  const hour = hours.find((each) => each.windowStartSeconds === windowStartSeconds);
  return quotaState(limit, (hour?.mirrored ?? 0) + (hour?.direct ?? 0), windowStartSeconds);
}

function nullIfAway(error: unknown): null {
  if (error instanceof LedgerAway) return null;
  throw error;
}

function rethrowUnlessAway(error: unknown): void {
  if (!(error instanceof LedgerAway)) throw error;
}

function unavailable(error: unknown): never {
  if (!(error instanceof LedgerAway)) throw error;
  const failure = new Failure('unavailable', 'Not every node can be told; try again', DOWN_RETRY_SECONDS);
  failure.cause = error;
  throw failure;
}
