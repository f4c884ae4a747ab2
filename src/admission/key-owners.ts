// Whose key it is: remembered in this process for some seconds, and looked up in Postgres, in batches, few at once, or in the ledger while Postgres is away; and how the
// ledger is filled with what Postgres has, one step for each key at a time, never with what is older than a change.
import { type Allowance, type KeyLimits, limitOf, type Plans, rulesOf } from '../config/plans.js';
import { Unavailable } from '../errors.js';
import { recentTable, USUAL } from '../recent-table.js';
import type { Fragment, Queries } from '../store/postgres.js';
import { guarded, ignoreIfAway, STORE_ANSWER_MS, StoreAway } from '../store/store-error.js';
import { later, within } from '../waiting/within.js';
import {
  type KeyLoader,
  type KeyOwner,
  type KeyRecord,
  type Ledger,
  type LedgerKey,
  type QuotaHour,
  REMEMBERED_MAX,
} from './admission.js';
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

/** After this Postgres is asked again, for what other processes did to the key or its plan without the ledger. */
const FRESH_MS = 15_000;
/** A known key doesn't wait longer than this for Postgres: what it said last is taken, and it is asked again a while later. */
const REFRESH_TIMEOUT_MS = 250;
const REFRESH_RETRY_MS = 1_000;
/** After this the ledger gets the owner again, so that it knows it of every key that was used within a day. */
const OWNER_MS = 3_600_000;
/** The limit of a key that only the ledger vouches for: it isn't compared with anything before Postgres is back. */
export const UNKNOWN_LIMIT = -1;

interface RememberedKey extends KeyRecord {
  readonly verifiedAtMs: number;
  /** When the ledger got the owner. */
  readonly sentAtMs: number;
}

export function createKeyOwners(parts: KeyOwnerParts) {
  const { ledger, findKey, fills, clock } = parts;
  const { owners, remember, verified, rememberForNow } = createKnownOwners(parts);

  async function refresh(keyHash: string, old: RememberedKey): Promise<KeyRecord | null> {
    try {
      const record = await within(findKey(keyHash), REFRESH_TIMEOUT_MS);
      if (record === null) {
        owners.delete(keyHash);
        return null;
      }
      // A plan or a key that was changed without the ledger (sluice user set-plan).
      if (record.hourlyLimit !== old.hourlyLimit || record.rules?.text !== old.rules?.text)
        await fills.key(keyHash, record).catch(ignoreIfAway);
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
    async agreed(keyHash: string, owner: KeyRecord, ledgerLimit: number) {
      const filled = await fills.key(keyHash, owner).catch(() => 'unknown' as const);
      if (filled === null) return null;
      const record = filled === 'unknown' ? { ...owner, hourlyLimit: ledgerLimit } : filled;
      const known = owners.get(keyHash);
      if (known !== undefined) remember(keyHash, record, known.verifiedAtMs, known.sentAtMs);
      // False: Postgres could not be asked.
      return { record, isFilled: filled !== 'unknown' };
    },
    forget: (keyHash: string): void => void owners.delete(keyHash),
  };
}

/** What this process remembers of keys. */
function createKnownOwners({ ledger, clock, onProblem }: KeyOwnerParts) {
  const owners = recentTable<RememberedKey>(REMEMBERED_MAX);

  function remember(keyHash: string, record: KeyRecord, verifiedAtMs: number, sentAtMs: number): RememberedKey {
    const remembered = { ...record, verifiedAtMs, sentAtMs };
    owners.set(keyHash, remembered);
    return remembered;
  }

  return {
    owners,
    remember,
    /** What Postgres said just now. The ledger gets it as well, for when Postgres is away; nobody waits for that. */
    verified(keyHash: string, record: KeyRecord, sentAtMs: number | null): RememberedKey {
      const nowMs = clock();
      if (sentAtMs !== null && Math.abs(nowMs - sentAtMs) < OWNER_MS) return remember(keyHash, record, nowMs, sentAtMs);
      ledger.rememberOwner(keyHash, record).catch((error: unknown) => {
        if (!(error instanceof StoreAway)) onProblem(`The owner of a key did not reach the ledger: ${String(error)}`);
      });
      return remember(keyHash, record, nowMs, nowMs);
    },
    rememberForNow: (keyHash: string, record: KeyRecord, sentAtMs: number): RememberedKey =>
      remember(keyHash, record, clock() - FRESH_MS + REFRESH_RETRY_MS, sentAtMs),
  };
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

  const readHours = async (userId: string): Promise<QuotaHour[]> => await guarded(hours.read(userId));

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
  };
}

/** Postgres sees so many statements of this process at one time. A client that guesses keys makes batches larger, not more. */
const BATCHES_MAX = 2;
/** Keys of one batch; its statement has one index probe for each. */
const BATCH_KEYS = 500;
/** Keys that wait for a batch; the next one is refused with 503. */
const WAITING_MAX = 20_000;
/** A batch that hangs longer, in a network that swallows it, makes room for another. */
const ABANDON_MS = 15_000;

/** Null when Postgres, asked after this call, doesn't have the key as a live one; throws Failure('unavailable'). */
export type FindKey = (keyHash: string) => Promise<KeyRecord | null>;

interface LookupTimes {
  readonly timeoutMs: number;
  readonly abandonMs: number;
}

export function createLookups(
  load: KeyLoader,
  { timeoutMs, abandonMs }: LookupTimes = { timeoutMs: STORE_ANSWER_MS, abandonMs: ABANDON_MS },
): FindKey {
  const waiting = new Map<string, ReturnType<typeof later<KeyRecord | null>>>();
  let running = 0;
  let scheduled = false;

  /** In the next turn of the event loop: whatever comes in this one shares the batch. */
  function schedule(): void {
    if (scheduled || running >= BATCHES_MAX || waiting.size === 0) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      void runBatch();
      schedule();
    });
  }

  async function runBatch(): Promise<void> {
    const batch = new Map([...waiting].slice(0, BATCH_KEYS));
    for (const keyHash of batch.keys()) waiting.delete(keyHash);
    running += 1;
    const loading = load([...batch.keys()]);
    loading.then(
      (records) => {
        for (const [keyHash, { resolve }] of batch) resolve(records.get(keyHash) ?? null);
      },
      (error: unknown) => {
        for (const { reject } of batch.values()) reject(error);
      },
    );
    // Its outcome has gone to those who wait; here it only matters that it has one.
    await within(loading, abandonMs).catch(() => undefined);
    running -= 1;
    schedule();
  }

  return async (keyHash) => {
    // A batch that hasn't begun looks after this call; one that has may have looked before the key was made.
    let question = waiting.get(keyHash);
    if (question === undefined) {
      if (waiting.size >= WAITING_MAX) throw new Unavailable('keyLookUpsBusy');
      question = later();
      // Those who wait may all have given up by the time it fails.
      question.promise.catch(() => undefined);
      waiting.set(keyHash, question);
      schedule();
    }
    return await guarded(question.promise, timeoutMs);
  };
}

/**
 * Keys that ended in the last two days, the last one first: for a ledger that was away and may not know of them.
 * Its records live for little more than one (RECORD_SECONDS).
 */
export async function recentRevocations(sql: Queries): Promise<{ userId: string; keyHash: string }[]> {
  return await sql<{ userId: string; keyHash: string }[]>`
    SELECT user_id AS "userId", encode(hash, 'hex') AS "keyHash" FROM api_keys WHERE revoked_at > now() - interval '2 days'
    ORDER BY revoked_at DESC`;
}

/** What live keys may, of those for which that was changed in the last two days: for a ledger that was away and may not know of it. */
export async function recentRules(sql: Queries): Promise<{ userId: string; key: LedgerKey }[]> {
  const rows = await sql<LookedUpKey[]>`
    SELECT ${keyColumns(sql)} FROM api_keys k WHERE rules_changed_at > now() - interval '2 days' AND revoked_at IS NULL`;
  return rows.map(({ userId, hash, keyId, ...limits }) => ({ userId, key: { hash, keyId, rules: rulesOf(limits) } }));
}

/** The hashes of those live keys that were used or made last: whose owners are likely to ask first. */
export async function recentKeys(sql: Queries, count: number): Promise<readonly string[]> {
  const rows = await sql<{ hash: string }[]>`
    SELECT encode(hash, 'hex') AS hash FROM api_keys
    WHERE revoked_at IS NULL ORDER BY COALESCE(last_use, creation_date) DESC LIMIT ${count}`;
  return rows.map(({ hash }) => hash);
}

interface LookedUpKey extends KeyOwner, KeyLimits {
  readonly hash: string;
}

const keyColumns = (sql: Queries): Fragment =>
  sql`encode(k.hash, 'hex') AS hash, k.user_id AS "userId", k.id AS "keyId",
    floor(extract(epoch FROM k.expires))::float8 AS "expiresAtSeconds", k.own_limit AS "hourlyLimit", k.scopes`;

/** Looks live keys up for the admission store, in one statement. A key whose time is over isn't a live one. */
export function createKeyLoader(sql: Queries, plans: Plans): KeyLoader {
  return async (keyHashes) => {
    const rows = await sql<(LookedUpKey & Allowance)[]>`
      SELECT ${keyColumns(sql)}, u.plan, u.own_limit AS "ownLimit", u.suspended_at IS NOT NULL AS "isSuspended"
      FROM (SELECT decode(text, 'hex') AS hash FROM unnest(${[...keyHashes]}::text[]) AS text) asked
      JOIN api_keys k ON k.hash = asked.hash AND k.revoked_at IS NULL AND (k.expires IS NULL OR k.expires > now())
      JOIN users u ON u.id = k.user_id`;
    return new Map(
      rows.map((row) => [
        row.hash,
        { userId: row.userId, keyId: row.keyId, hourlyLimit: limitOf(plans, row), rules: rulesOf(row) },
      ]),
    );
  };
}
