// Keys in the stores: an API key as its SHA-256, never its value; and those by which the service encrypts what it keeps, a random half in the database, the
// same for all nodes, and the operator's half where there is one.
import { hash, hkdfSync, randomBytes } from 'node:crypto';
import type { Queries } from './postgres.js';

/** The form in which a key is stored and looked up: SHA-256, 64 hex characters. It has 128 random bits: no salt is needed. */
export const hashOfKey = (value: string): string => hash('sha256', value);

/** The same as the bytes of a column. */
export const hashBytes = (keyHash: string): Buffer => Buffer.from(keyHash, 'hex');

type KeyPurpose = 'contents' | 'webhooks';

/**
 * 32 bytes. `operatorKey` (ENCRYPTION_KEY) is in no file and no database: with it neither the disk nor the database is enough to read what was
 * encrypted. Null: there is none.
 */
export async function serviceKey(sql: Queries, purpose: KeyPurpose, operatorKey: Buffer | null): Promise<Buffer> {
  await sql`
    INSERT INTO service_keys (purpose, key) VALUES (${purpose}, ${randomBytes(32)}) ON CONFLICT (purpose) DO NOTHING`;
  const [row] = await sql<{ key: Buffer }[]>`SELECT key FROM service_keys WHERE purpose = ${purpose}`;
  if (row === undefined) throw new Error('A key that was made is not there');
  // RFC 5869: the operator's half as the salt.
  return Buffer.from(hkdfSync('sha256', row.key, operatorKey ?? Buffer.alloc(0), `sluice ${purpose}`, 32));
}
