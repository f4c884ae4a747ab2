// Keys as admission asks Postgres for them: which live ones there are behind a hash, and which have ended lately.
import { hourlyLimitOf, type Plans } from '../config/plans.js';
import type { Queries } from '../store/postgres.js';
import type { KeyLoader } from './admission.js';

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

/** Looks live keys up for the admission store, in one statement. */
export function createKeyLoader(sql: Queries, plans: Plans): KeyLoader {
  return async (keyHashes) => {
    const rows = await sql<{ hash: string; user_id: string; id: string; plan: string }[]>`
      SELECT encode(k.hash, 'hex') AS hash, k.user_id, k.id, u.plan
      FROM (SELECT decode(text, 'hex') AS hash FROM unnest(${[...keyHashes]}::text[]) AS text) asked
      JOIN api_keys k ON k.hash = asked.hash AND k.revoked_at IS NULL
      JOIN users u ON u.id = k.user_id`;
    return new Map(
      rows.map(({ hash, user_id, id, plan }) => [
        hash,
        { userId: user_id, keyId: id, hourlyLimit: hourlyLimitOf(plans, plan) },
      ]),
    );
  };
}
