// Whose key it is: remembered in this process for some seconds, and looked up in Postgres, or in the ledger while Postgres is away; and how the ledger is filled with what Postgres has, one step for each key at a time, never with what is older than a change.
import { recentTable, USUAL } from '../recent-table.js';
import { guarded, StoreAway } from '../store/store-error.js';
import { within } from '../waiting/within.js';
import { type KeyOwner, type KeyRecord, type Ledger, type QuotaHour, REMEMBERED_MAX } from './admission.js';
import type { FindKey } from './lookups.js';
import type { QuotaHours } from './quota-hours.js';

interface KeyOwnerParts {
  readonly ledger: Ledger;
  readonly findKey: FindKey;
  readonly fills: Fills;
  /** Milliseconds of a clock that only measures ages. */
  readonly clock: () => number;
  readonly onProblem: (message: string) => void;
}

export type KeyOwners = ReturnType<typeof createKeyOwners>;

interface Agreed {
  readonly record: KeyRecord;
  /** False: Postgres could not be asked. */
  readonly isFilled: boolean;
}

/** After this Postgres is asked again, for what other processes did to the key or its plan without the ledger. */
const FRESH_MS = 15_000;
/** A known key doesn't wait longer than this for Postgres: what it said last is taken, and it is asked again a while later. */
const REFRESH_TIMEOUT_MS = 250;
const REFRESH_RETRY_MS = 1_000;
/** After this the ledger gets the owner again, so that it knows it of every key that was used within a day. */
const OWNER_MS = 3_600_000;
/** The limit of a key that only the ledger vouches for: it isn't compared with anything before Postgres is back. */
export const UNKNOWN_LIMIT = -1;

interface Remembered extends KeyRecord {
  readonly verifiedAtMs: number;
  /** When the ledger got the owner. */
  readonly sentAtMs: number;
}

export function createKeyOwners({ ledger, findKey, fills, clock, onProblem }: KeyOwnerParts) {
  const owners = recentTable<Remembered>(REMEMBERED_MAX);

  function remember(keyHash: string, record: KeyRecord, verifiedAtMs: number, sentAtMs: number): Remembered {
    const remembered = { ...record, verifiedAtMs, sentAtMs };
    owners.set(keyHash, remembered);
    return remembered;
  }

  /** What Postgres said just now. The ledger gets it as well, for when Postgres is away; nobody waits for that. */
  function verified(keyHash: string, record: KeyRecord, sentAtMs: number | null): Remembered {
    const nowMs = clock();
    if (sentAtMs !== null && Math.abs(nowMs - sentAtMs) < OWNER_MS) return remember(keyHash, record, nowMs, sentAtMs);
    ledger.rememberOwner(keyHash, record).catch((error: unknown) => {
      if (!(error instanceof StoreAway)) onProblem(`The owner of a key did not reach the ledger: ${String(error)}`);
    });
    return remember(keyHash, record, nowMs, nowMs);
  }

  function rememberForNow(keyHash: string, record: KeyRecord, sentAtMs: number): Remembered {
    return remember(keyHash, record, clock() - FRESH_MS + REFRESH_RETRY_MS, sentAtMs);
  }

  async function refresh(keyHash: string, old: Remembered): Promise<KeyRecord | null> {
    try {
      const record = await within(findKey(keyHash), REFRESH_TIMEOUT_MS);
      if (record === null) {
        owners.delete(keyHash);
        return null;
      }
      // A plan or a key that was changed without the ledger (sluice user set-plan).
      if (record.hourlyLimit !== old.hourlyLimit || record.rules?.text !== old.rules?.text)
        await fills.key(keyHash, record).catch(rethrowUnlessAway);
      return verified(keyHash, record, old.sentAtMs);
    } catch (error) {
      // Postgres can't be asked now. A known key is served without it until it answers. (For an unknown key, the same failure is a 503.)
      if (!(error instanceof Error)) throw error;
      return owners.get(keyHash) === old ? rememberForNow(keyHash, old, old.sentAtMs) : old;
    }
  }

  async function introduce(keyHash: string): Promise<KeyRecord | null> {
    try {
      const record = await findKey(keyHash);
      return record === null ? null : verified(keyHash, record, null);
    } catch (error) {
      // Without Postgres: what another node gave to the ledger, which still says whether the key is live.
      const owner = await ledger.ownerOf(keyHash).catch(() => null);
      if (owner === null) throw error;
      return rememberForNow(keyHash, { ...owner, hourlyLimit: UNKNOWN_LIMIT }, clock());
    }
  }

  return {
    /** What this process knows and needn't ask for; null: nothing that is new enough. */
    fresh(keyHash: string): KeyRecord | null {
      const known = owners.get(keyHash, USUAL);
      return known !== undefined && Math.abs(clock() - known.verifiedAtMs) < FRESH_MS ? known : null;
    },
    /** Whose key it was when it was last looked up: that never changes, only whether it is live. Null: this process doesn't remember. */
    userOf: (keyHash: string): string | null => owners.get(keyHash)?.userId ?? null,
    /** Whose key it is, as Postgres said lately; whether it is still live, the ledger says. Null: Postgres has no such live key. */
    async identify(keyHash: string): Promise<KeyRecord | null> {
      const old = owners.get(keyHash);
      return old === undefined ? await introduce(keyHash) : await refresh(keyHash, old);
    },
    /**
     * What the ledger has differs from what Postgres said of the key lately. Either a plan was changed without the ledger (sluice user set-plan,
     * PLANS, a restored backup), or the ledger knows of a change and this process doesn't. Postgres is asked again, and both take that over.
     * Without Postgres the ledger's word counts, until the key is looked up again. Null: Postgres says that the key has ended.
     */
    async agreed(keyHash: string, owner: KeyRecord, ledgerLimit: number): Promise<Agreed | null> {
      const filled = await fills.key(keyHash, owner).catch(() => 'unknown' as const);
      if (filled === null) return null;
      const record = filled === 'unknown' ? { ...owner, hourlyLimit: ledgerLimit } : filled;
      const known = owners.get(keyHash);
      if (known !== undefined) remember(keyHash, record, known.verifiedAtMs, known.sentAtMs);
      return { record, isFilled: filled !== 'unknown' };
    },
    forget: (keyHash: string): void => void owners.delete(keyHash),
  };
}

function rethrowUnlessAway(error: unknown): void {
  if (!(error instanceof StoreAway)) throw error;
}

interface FillParts {
  readonly ledger: Ledger;
  readonly findKey: FindKey;
  readonly hours: QuotaHours;
  /** What Postgres says now of a user's limit; null: it knows no such user. */
  readonly limitOf: (userId: string) => Promise<number | null>;
}

/** Both throw StoreAway when the ledger is away, and Failure('unavailable') when Postgres is. */
export type Fills = ReturnType<typeof createFills>;

export function createFills({ ledger, findKey, hours, limitOf }: FillParts) {
  const running = new Map<string, Promise<KeyRecord | null>>();

  async function readAndFill(keyHash: string, { userId, keyId }: KeyOwner): Promise<KeyRecord | null> {
    const token = await ledger.begin(userId);
    const [record, known] = await Promise.all([findKey(keyHash), readHours(userId)]);
    if (record === null) return null;
    const key = { hash: keyHash, keyId, rules: record.rules };
    // Refused: something changed in between, and the request that needs it asks again.
    const isFilled = await ledger.fill(userId, token, { key, hourlyLimit: record.hourlyLimit, hours: known });
    if (isFilled) await ledger.rememberOwner(keyHash, { userId, keyId });
    return record;
  }

  /** What Postgres knows of the user's hours. */
  async function readHours(userId: string): Promise<QuotaHour[]> {
    return await guarded(hours.read(userId));
  }

  return {
    /** Tells the ledger what Postgres says now of the key and its user; null when the key isn't live any more. */
    key(keyHash: string, owner: KeyOwner): Promise<KeyRecord | null> {
      const known = running.get(keyHash);
      if (known !== undefined) return known;
      const filling = readAndFill(keyHash, owner).finally(() => running.delete(keyHash));
      running.set(keyHash, filling);
      return filling;
    },
    /** The same for a user who is signed in: the caller read the limit before the token, so it is read again. Returns the limit. */
    async user(userId: string, hourlyLimit: number): Promise<number> {
      const token = await ledger.begin(userId);
      const [limit, known] = await Promise.all([guarded(limitOf(userId)), readHours(userId)]);
      await ledger.fill(userId, token, { key: null, hourlyLimit: limit ?? hourlyLimit, hours: known });
      return limit ?? hourlyLimit;
    },
    readHours,
  };
}
