// API keys: 128 random bits shown once, kept as their SHA-256, looked up by it.
import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { hashBytes, hashOfKey } from '../store/key-hash.js';
import type { Queries, Sql } from '../store/postgres.js';

export interface NewKey {
  readonly userId: string;
  /** 1 to 100 characters. */
  readonly name: string;
  /** 32 lower-case hex characters; random when it isn't given. */
  readonly value?: string;
}

export interface CreatedKey {
  readonly keyId: string;
  readonly name: string;
  /** The only time that it can be shown. */
  readonly value: string;
  readonly masked: string;
  readonly creationDate: Date;
}

const VALUE_BYTES = 16;
const SHOWN_CHARACTERS = 4;

export async function createKey(sql: Queries, { userId, name, value = randomKey() }: NewKey): Promise<CreatedKey> {
  const keyId = uuidv7();
  const prefix = value.slice(0, SHOWN_CHARACTERS);
  const suffix = value.slice(-SHOWN_CHARACTERS);
  const [row] = await sql<{ creation_date: Date }[]>`
    INSERT INTO api_keys (id, user_id, name, hash, prefix, suffix)
    VALUES (${keyId}, ${userId}, ${name}, ${hashBytes(hashOfKey(value))}, ${prefix}, ${suffix})
    RETURNING creation_date`;
  if (row === undefined) throw new Error('An insert returns its row');
  return { keyId, name, value, masked: maskedKey(prefix, suffix), creationDate: row.creation_date };
}

/** What an owner sees of a key: `0123…cdef` with a star for each hidden character. */
function maskedKey(prefix: string, suffix: string): string {
  return `${prefix}${'*'.repeat(2 * VALUE_BYTES - 2 * SHOWN_CHARACTERS)}${suffix}`;
}

/** Live keys of one user; nobody rotates through more, and scripts that forget to delete theirs are stopped here. */
export const LIVE_KEYS_MAX = 50;

/** A live key as its owner sees it in a list. */
export interface ListedKey {
  readonly keyId: string;
  readonly name: string;
  readonly masked: string;
  readonly creationDate: Date;
  readonly lastUse: Date | null;
}

/**
 * The same within the user's LIVE_KEYS_MAX: null when they are reached, or when there is no such user any more. The user's row
 * orders creations of one user, so their count is exact.
 */
export async function createKeyWithinLimit(sql: Sql, key: NewKey): Promise<CreatedKey | null> {
  // Whatever the database's default is: a snapshot from before the lock would not show the other's key.
  return await sql.transaction('readCommitted', async (tx) => {
    const [user] = await tx`SELECT FROM users WHERE id = ${key.userId} FOR NO KEY UPDATE`;
    if (user === undefined) return null;
    const [row] = await tx<{ live: number }[]>`
      SELECT count(*)::int AS live FROM api_keys WHERE user_id = ${key.userId} AND revoked_at IS NULL`;
    return (row?.live ?? 0) < LIVE_KEYS_MAX ? await createKey(tx, key) : null;
  });
}

/** The newest first. */
export async function listKeys(sql: Queries, userId: string): Promise<ListedKey[]> {
  const rows = await sql<
    { id: string; name: string; prefix: string; suffix: string; creation_date: Date; last_use: Date | null }[]
  >`
    SELECT id, name, prefix, suffix, creation_date, last_use FROM api_keys
    WHERE user_id = ${userId} AND revoked_at IS NULL ORDER BY id DESC`;
  return rows.map(({ id, name, prefix, suffix, creation_date, last_use }) => ({
    keyId: id,
    name,
    masked: maskedKey(prefix, suffix),
    creationDate: creation_date,
    lastUse: last_use,
  }));
}

function randomKey(): string {
  return randomBytes(VALUE_BYTES).toString('hex');
}
