// API keys: 128 random bits shown once, kept as their SHA-256, looked up by it.
import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { KeyLoader } from '../store/admission.js';
import type { Queries } from '../store/postgres.js';
import { hashOfKey } from './access.js';

export interface NewKey {
  readonly userId: string;
  /** 1 to 100 characters. */
  readonly name: string;
  /** 32 lower-case hex characters; random when it isn't given. */
  readonly value?: string;
}

export interface CreatedKey {
  readonly keyId: string;
  /** The only time that it can be shown. */
  readonly value: string;
  readonly masked: string;
}

const VALUE_BYTES = 16;
const SHOWN_CHARACTERS = 4;

export async function createKey(sql: Queries, { userId, name, value = randomKey() }: NewKey): Promise<CreatedKey> {
  const keyId = uuidv7();
  const prefix = value.slice(0, SHOWN_CHARACTERS);
  const suffix = value.slice(-SHOWN_CHARACTERS);
  await sql`
    INSERT INTO api_keys (id, user_id, name, hash, prefix, suffix)
    VALUES (${keyId}, ${userId}, ${name}, ${hashBytes(hashOfKey(value))}, ${prefix}, ${suffix})`;
  return { keyId, value, masked: maskedKey(prefix, suffix) };
}

/** What an owner sees of a key: `0123…cdef` with a star for each hidden character. */
function maskedKey(prefix: string, suffix: string): string {
  return `${prefix}${'*'.repeat(2 * VALUE_BYTES - 2 * SHOWN_CHARACTERS)}${suffix}`;
}

/** Ends a key in Postgres, for good; its hash, or null when the user has no such live key. Tell the admission store after it. */
export async function revokeKey(sql: Queries, userId: string, keyId: string): Promise<string | null> {
  const [row] = await sql<{ hash: string }[]>`
    UPDATE api_keys SET revoked_at = now()
    WHERE id = ${keyId} AND user_id = ${userId} AND revoked_at IS NULL
    RETURNING encode(hash, 'hex') AS hash`;
  return row?.hash ?? null;
}

/** Keys that ended in the last day: for a ledger of admissions that may not have been told while it was away. */
export async function recentRevocations(sql: Queries): Promise<{ userId: string; keyHash: string }[]> {
  const rows = await sql<{ user_id: string; hash: string }[]>`
    SELECT user_id, encode(hash, 'hex') AS hash FROM api_keys WHERE revoked_at > now() - interval '1 day'`;
  return rows.map(({ user_id, hash }) => ({ userId: user_id, keyHash: hash }));
}

/** Looks live keys up for the admission store, in one statement. */
export function createKeyLoader(sql: Queries, limitOf: (plan: string) => number): KeyLoader {
  return async (keyHashes) => {
    const rows = await sql<{ hash: string; user_id: string; id: string; plan: string }[]>`
      SELECT encode(k.hash, 'hex') AS hash, k.user_id, k.id, u.plan
      FROM (SELECT decode(text, 'hex') AS hash FROM unnest(${[...keyHashes]}::text[]) AS text) asked
      JOIN api_keys k ON k.hash = asked.hash AND k.revoked_at IS NULL
      JOIN users u ON u.id = k.user_id`;
    return new Map(
      rows.map(({ hash, user_id, id, plan }) => [hash, { userId: user_id, keyId: id, hourlyLimit: limitOf(plan) }]),
    );
  };
}

function randomKey(): string {
  return randomBytes(VALUE_BYTES).toString('hex');
}

function hashBytes(keyHash: string): Buffer {
  return Buffer.from(keyHash, 'hex');
}
