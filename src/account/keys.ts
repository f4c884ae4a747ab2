// API keys: made here, shown once, kept as hashes.
import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { LiveKey } from '../store/admission.js';
import type { Queries } from '../store/postgres.js';
import { hashKey } from './access.js';

/** 32 lower-case hexadecimal characters. */
export function randomKey(): string {
  return randomBytes(16).toString('hex');
}

export async function insertKey(sql: Queries, key: { userId: string; name: string; value: string }): Promise<void> {
  const { userId, name, value } = key;
  await sql`
    INSERT INTO api_keys (id, user_id, name, hash, first_characters, last_characters)
    VALUES (${uuidv7()}, ${userId}, ${name}, ${Buffer.from(hashKey(value), 'hex')}, ${value.slice(0, 4)}, ${value.slice(-4)})`;
}

/** Finds a live key by its hash; the limit is that of its user's plan, none for a plan that no longer exists. */
export async function findKey(sql: Queries, plans: ReadonlyMap<string, number>, keyHash: string): Promise<LiveKey | null> {
  const [row] = await sql<{ key_id: string; user_id: string; plan: string }[]>`
    SELECT k.id AS key_id, k.user_id, u.plan
    FROM api_keys k JOIN users u ON u.id = k.user_id
    WHERE k.hash = ${Buffer.from(keyHash, 'hex')} AND k.revoked_at IS NULL`;
  if (row === undefined) return null;
  return { keyId: row.key_id, userId: row.user_id, hourlyLimit: plans.get(row.plan) ?? 0 };
}
