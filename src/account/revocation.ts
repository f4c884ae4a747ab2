// Ending a key: first Postgres commits it, then every node learns of it, and only then the request is answered.
import { guarded } from '../store/guard.js';
import { hashBytes, hashOfKey } from '../store/key-hash.js';
import type { Sql } from '../store/postgres.js';

const LOCK_TIMEOUT = '3s';

/** From its return on every node refuses the key; throws Failure('unavailable') when one can't be reached. */
export interface KeyRevocation {
  revoke(key: { readonly userId: string; readonly keyHash: string }): Promise<void>;
}

export interface EndedKey {
  readonly keyId: string;
  readonly userId: string;
  readonly name: string;
  readonly keyHash: string;
}

/** A UUID with its dashes, or a key's value: the same digits, with or without them. */
const REFERENCE = /^[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}$/i;

/**
 * Ends a key that is named by its record's id or by its value; null when there is none to end. With `userId` null it ends a key of any
 * user, for the operator. Throws Failure('unavailable') when it is not certain that every node refuses the key; the same call, repeated,
 * then completes it. Of calls at the same time one gets the key and the others null. All of them return after the nodes have learned of it.
 */
export async function endKey(
  sql: Sql,
  nodes: KeyRevocation,
  userId: string | null,
  reference: string,
): Promise<EndedKey | null> {
  const key = await guarded(revokeInPostgres(sql, userId, reference));
  if (key === null) return null;
  await guarded(nodes.revoke(key));
  return (await guarded(markTold(sql, key.keyId))) ? key : null;
}

/** The first step alone, committed: of a key that is live, or of which the nodes have not learned yet. */
export async function revokeInPostgres(sql: Sql, userId: string | null, reference: string): Promise<EndedKey | null> {
  if (!REFERENCE.test(reference)) return null;
  const digits = reference.replaceAll('-', '').toLowerCase();
  const hash = hashBytes(hashOfKey(digits));
  // 32 digits are an id as well as a value: as an id first. Nobody can choose the value of a key that another's id would hide.
  return await sql.transaction('readCommitted', async (tx) => {
    // Somebody's transaction may have the row and not come back: better an error than one connection more that waits.
    await tx`SELECT set_config('lock_timeout', ${LOCK_TIMEOUT}, true)`;
    const [row] = await tx<{ id: string; user_id: string; name: string; hash: string }[]>`
      UPDATE api_keys SET revoked_at = COALESCE(revoked_at, now())
      WHERE NOT revocation_told AND id = (
        SELECT id FROM api_keys
        WHERE (id = ${digits}::uuid OR hash = ${hash}) AND (user_id = ${userId} OR ${userId}::uuid IS NULL)
          AND NOT revocation_told
        ORDER BY id = ${digits}::uuid DESC LIMIT 1)
      RETURNING id, user_id, name, encode(hash, 'hex') AS hash`;
    return row === undefined ? null : { keyId: row.id, userId: row.user_id, name: row.name, keyHash: row.hash };
  });
}

/** Keys that one look takes at most. */
const UNTOLD_KEYS = 200;
/** For so long the user who asked for the end of a key may still complete it. */
const COMPLETED_AFTER = '10 minutes';

/**
 * Tells the nodes of keys that have ended without it: of a process that died in between, or a client that didn't come back after its
 * 503. Rejects when a node can't be reached.
 */
export async function tellOfEnded(sql: Sql, nodes: KeyRevocation): Promise<void> {
  const rows = await sql<{ id: string; user_id: string; hash: string; is_over: boolean }[]>`
    SELECT id, user_id, encode(hash, 'hex') AS hash, revoked_at < now() - ${COMPLETED_AFTER}::interval AS is_over
    FROM api_keys WHERE revoked_at IS NOT NULL AND NOT revocation_told ORDER BY revoked_at LIMIT ${UNTOLD_KEYS}`;
  for (const { id, user_id: userId, hash: keyHash, is_over: isOver } of rows) {
    await nodes.revoke({ userId, keyHash });
    if (isOver) await markTold(sql, id);
  }
}

/** Whether it was this call that completed it. */
async function markTold(sql: Sql, keyId: string): Promise<boolean> {
  return await sql.transaction('readCommitted', async (tx) => {
    const told = await tx`UPDATE api_keys SET revocation_told = true WHERE id = ${keyId} AND NOT revocation_told`;
    return told.count > 0;
  });
}
