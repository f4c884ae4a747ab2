// Look-ups of keys in Postgres: gathered into batches, few at once, and none that is waited for without an end.
import { type KeyScope, rulesOf } from '../config/key-rules.js';
import { limitOf, type Plans } from '../config/plans.js';
import { Unavailable } from '../errors.js';
import type { Queries } from '../store/postgres.js';
import { guarded, STORE_ANSWER_MS } from '../store/store-error.js';
import { within } from '../waiting/within.js';
import type { KeyLoader, KeyRecord, LedgerKey } from './admission.js';

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

interface Waiting {
  readonly found: Promise<KeyRecord | null>;
  readonly resolve: (record: KeyRecord | null) => void;
  readonly reject: (error: unknown) => void;
}

interface LookupTimes {
  readonly timeoutMs: number;
  readonly abandonMs: number;
}

export function createLookups(
  load: KeyLoader,
  { timeoutMs, abandonMs }: LookupTimes = { timeoutMs: STORE_ANSWER_MS, abandonMs: ABANDON_MS },
): FindKey {
  const waiting = new Map<string, Waiting>();
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
    let place = waiting.get(keyHash);
    if (place === undefined) {
      if (waiting.size >= WAITING_MAX) {
        throw new Unavailable('keyLookUpsBusy');
      }
      place = placeInBatch();
      waiting.set(keyHash, place);
      schedule();
    }
    return await guarded(place.found, timeoutMs);
  };
}

function placeInBatch(): Waiting {
  let resolve: Waiting['resolve'] = () => undefined;
  let reject: Waiting['reject'] = () => undefined;
  const found = new Promise<KeyRecord | null>((accept, refuse) => {
    resolve = accept;
    reject = refuse;
  });
  // Those who wait may all have given up by the time it fails.
  found.catch(() => undefined);
  return { found, resolve, reject };
}

/**
 * Keys that ended in the last two days, the last one first: for a ledger that was away and may not know of them.
 * Its records live for little more than one (RECORD_SECONDS).
 */
export async function recentRevocations(sql: Queries): Promise<{ userId: string; keyHash: string }[]> {
  const rows = await sql<{ user_id: string; hash: string }[]>`
    SELECT user_id, encode(hash, 'hex') AS hash FROM api_keys WHERE revoked_at > now() - interval '2 days'
    ORDER BY revoked_at DESC`;
  return rows.map(({ user_id, hash }) => ({ userId: user_id, keyHash: hash }));
}

/** What live keys may, of those for which that was changed in the last two days: for a ledger that was away and may not know of it. */
export async function recentRules(sql: Queries): Promise<{ userId: string; key: LedgerKey }[]> {
  const rows = await sql<(LookedUp & { hash: string })[]>`
    SELECT encode(hash, 'hex') AS hash, user_id, id, extract(epoch FROM expires)::bigint AS expires, own_limit AS key_limit, scopes
    FROM api_keys WHERE rules_changed_at > now() - interval '2 days' AND revoked_at IS NULL`;
  return rows.map((row) => ({ userId: row.user_id, key: { hash: row.hash, keyId: row.id, rules: rulesIn(row) } }));
}

interface LookedUp {
  readonly hash: string;
  readonly user_id: string;
  readonly id: string;
  readonly plan: string;
  readonly own_limit: number | null;
  readonly is_suspended: boolean;
  readonly expires: string | null;
  readonly key_limit: number | null;
  readonly scopes: readonly KeyScope[];
}

/** Looks live keys up for the admission store, in one statement. A key whose time is over isn't a live one. */
export function createKeyLoader(sql: Queries, plans: Plans): KeyLoader {
  return async (keyHashes) => {
    const rows = await sql<LookedUp[]>`
      SELECT encode(k.hash, 'hex') AS hash, k.user_id, k.id, u.plan, u.own_limit, u.suspended_at IS NOT NULL AS is_suspended,
        extract(epoch FROM k.expires)::bigint AS expires, k.own_limit AS key_limit, k.scopes
      FROM (SELECT decode(text, 'hex') AS hash FROM unnest(${[...keyHashes]}::text[]) AS text) asked
      JOIN api_keys k ON k.hash = asked.hash AND k.revoked_at IS NULL AND (k.expires IS NULL OR k.expires > now())
      JOIN users u ON u.id = k.user_id`;
    return new Map(
      rows.map((row) => {
        const { hash, user_id: userId, id: keyId, plan, own_limit: ownLimit, is_suspended: isSuspended } = row;
        const hourlyLimit = limitOf(plans, { plan, ownLimit, isSuspended });
        return [hash, { userId, keyId, hourlyLimit, rules: rulesIn(row) }];
      }),
    );
  };
}

function rulesIn({ expires, key_limit: hourlyLimit, scopes }: Pick<LookedUp, 'expires' | 'key_limit' | 'scopes'>) {
  return rulesOf({ expiresAtSeconds: expires === null ? null : Number(expires), hourlyLimit, scopes });
}
