// API keys: 128 random bits shown once, kept as their SHA-256, looked up by it, and ended on every node.
import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { KEY_SCOPES, type KeyLimits } from '../config/plans.js';
import { hashBytes, hashOfKey } from '../store/keys.js';
import type { Fragment, Queries, Sql } from '../store/postgres.js';
import { guarded } from '../store/store-error.js';

interface NewKey {
  readonly userId: string;
  /** 1 to 100 characters. */
  readonly name: string;
  /** 32 lower-case hex characters; random when it isn't given. */
  readonly value?: string;
  /** Absent: it may all that its account may. */
  readonly limits?: KeyLimits;
}

/** Of a key that may all that its account may. */
export const NO_LIMITS: KeyLimits = { expiresAtSeconds: null, hourlyLimit: null, scopes: KEY_SCOPES };

const VALUE_BYTES = 16;
const SHOWN_CHARACTERS = 4;

const keyColumns = (sql: Queries): Fragment =>
  sql`id AS "keyId", name, prefix, suffix, creation_date AS "creationDate", last_use AS "lastUse", expires, own_limit AS "hourlyLimit", scopes`;

export async function createKey(sql: Queries, { userId, name, value = randomKey(), limits = NO_LIMITS }: NewKey) {
  const [row] = await sql<KeyColumns[]>`
    INSERT INTO api_keys (id, user_id, name, hash, prefix, suffix, expires, own_limit, scopes)
    VALUES (${uuidv7()}, ${userId}, ${name}, ${hashBytes(hashOfKey(value))}, ${value.slice(0, SHOWN_CHARACTERS)},
      ${value.slice(-SHOWN_CHARACTERS)}, ${timeOf(limits)}::timestamptz, ${limits.hourlyLimit}, ${[...limits.scopes]}::text[])
    RETURNING ${keyColumns(sql)}`;
  if (row === undefined) throw new Error('An insert returns its row');
  return { ...listedKey(row), value };
}

function timeOf({ expiresAtSeconds }: KeyLimits): Date | null {
  return expiresAtSeconds === null ? null : new Date(expiresAtSeconds * 1000);
}

/** Live keys of one user; nobody rotates through more, and scripts that forget to delete theirs are stopped here. */
export const LIVE_KEYS_MAX = 50;

export interface ListedKey {
  readonly keyId: string;
  readonly name: string;
  readonly masked: string;
  readonly creationDate: Date;
  readonly lastUse: Date | null;
  readonly limits: KeyLimits;
}

/** With its `value`: the only time that it can be shown. */
export type CreatedKey = Awaited<ReturnType<typeof createKey>>;

/**
 * The same in a transaction, within the user's LIVE_KEYS_MAX: null when they are reached, or when there is no such user any more. The user's row
 * orders creations of one user, so their count is exact.
 */
export async function createKeyWithinLimit(tx: Queries, key: NewKey): Promise<CreatedKey | null> {
  const [user] = await tx`SELECT FROM users WHERE id = ${key.userId} FOR NO KEY UPDATE`;
  if (user === undefined) return null;
  const [row] = await tx<{ live: number }[]>`
    SELECT count(*)::int AS live FROM api_keys WHERE user_id = ${key.userId} AND revoked_at IS NULL`;
  return (row?.live ?? 0) < LIVE_KEYS_MAX ? await createKey(tx, key) : null;
}

interface KeyColumns extends Omit<ListedKey, 'masked' | 'limits'>, Omit<KeyLimits, 'expiresAtSeconds'> {
  readonly prefix: string;
  readonly suffix: string;
  readonly expires: Date | null;
}

/** The newest first, also those whose time is over. */
export async function listKeys(sql: Queries, userId: string): Promise<ListedKey[]> {
  const rows = await sql<KeyColumns[]>`
    SELECT ${keyColumns(sql)} FROM api_keys
    WHERE user_id = ${userId} AND revoked_at IS NULL ORDER BY id DESC`;
  return rows.map(listedKey);
}

function listedKey({ prefix, suffix, expires, hourlyLimit, scopes, ...row }: KeyColumns): ListedKey {
  // `0123…cdef` with a star for each hidden character.
  const masked = `${prefix}${'*'.repeat(2 * VALUE_BYTES - 2 * SHOWN_CHARACTERS)}${suffix}`;
  const expiresAtSeconds = expires === null ? null : Math.floor(expires.getTime() / 1000);
  return { ...row, masked, limits: { expiresAtSeconds, hourlyLimit, scopes } };
}

/** What is left out stays. */
interface KeyChange extends Partial<KeyLimits> {
  readonly name?: string;
}

/** From its return on every node admits the key by these limits; throws Failure('unavailable') when one can't be reached. */
export interface KeyNodes extends KeyRevocation {
  setKeyLimits(key: Omit<EndedKey, 'name'>, limits: KeyLimits): Promise<void>;
}

/**
 * Null: the user has no such live key. Throws Failure('unavailable') when it is not certain that every node has learned of it; the same
 * call, repeated, then completes it.
 */
export async function changeKey(
  sql: Sql,
  nodes: KeyNodes,
  { userId, keyId }: { readonly userId: string; readonly keyId: string },
  change: KeyChange,
): Promise<ListedKey | null> {
  const { name = null, expiresAtSeconds = null, hourlyLimit, scopes } = change;
  const hasLimits = change.expiresAtSeconds !== undefined || hourlyLimit !== undefined || scopes !== undefined;
  const [row] = await guarded(sql<(KeyColumns & { keyHash: string })[]>`
    UPDATE api_keys SET
      name = COALESCE(${name}, name),
      expires = CASE WHEN ${change.expiresAtSeconds !== undefined}::boolean THEN to_timestamp(${expiresAtSeconds}::bigint) ELSE expires END,
      own_limit = CASE WHEN ${hourlyLimit !== undefined}::boolean THEN ${hourlyLimit ?? null}::integer ELSE own_limit END,
      scopes = COALESCE(${scopes === undefined ? null : [...scopes]}::text[], scopes),
      rules_changed_at = CASE WHEN ${hasLimits}::boolean THEN now() ELSE rules_changed_at END
    WHERE id = ${keyId} AND user_id = ${userId} AND revoked_at IS NULL
    RETURNING ${keyColumns(sql)}, encode(hash, 'hex') AS "keyHash"`);
  if (row === undefined) return null;
  const { keyHash, ...columns } = row;
  const key = listedKey(columns);
  if (hasLimits) await guarded(nodes.setKeyLimits({ userId, keyId, keyHash }, key.limits));
  return key;
}

const randomKey = (): string => randomBytes(VALUE_BYTES).toString('hex');

const LOCK_TIMEOUT = '3s';

/** From its return on every node refuses the key; throws Failure('unavailable') when one can't be reached. */
export interface KeyRevocation {
  revoke(key: { readonly userId: string; readonly keyHash: string }): Promise<void>;
}

interface EndedKey {
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
  onEnd?: OnEnd,
): Promise<EndedKey | null> {
  const key = await guarded(revokeInPostgres(sql, userId, reference, onEnd));
  if (key === null) return null;
  await guarded(nodes.revoke(key));
  return (await guarded(markTold(sql, key.keyId))) ? key : null;
}

/** Is run once for a key, in the transaction in which it ends. */
type OnEnd = (tx: Queries, key: EndedKey) => Promise<void>;

/** The first step alone, committed: of a key that is live, or of which the nodes have not learned yet. */
export async function revokeInPostgres(
  sql: Sql,
  userId: string | null,
  reference: string,
  onEnd?: OnEnd,
): Promise<EndedKey | null> {
  if (!REFERENCE.test(reference)) return null;
  const digits = reference.replaceAll('-', '').toLowerCase();
  const hash = hashBytes(hashOfKey(digits));
  // 32 digits are an id as well as a value: as an id first. Nobody can choose the value of a key that another's id would hide.
  return await sql.transaction('readCommitted', async (tx) => {
    // Somebody's transaction may have the row and not come back: better an error than one connection more that waits.
    await tx`SELECT set_config('lock_timeout', ${LOCK_TIMEOUT}, true)`;
    const [row] = await tx<(EndedKey & { isNew: boolean })[]>`
      UPDATE api_keys SET revoked_at = COALESCE(revoked_at, now())
      WHERE NOT revocation_told AND id = (
        SELECT id FROM api_keys
        WHERE (id = ${digits}::uuid OR hash = ${hash}) AND (user_id = ${userId} OR ${userId}::uuid IS NULL)
          AND NOT revocation_told
        ORDER BY id = ${digits}::uuid DESC LIMIT 1)
      RETURNING id AS "keyId", user_id AS "userId", name, encode(hash, 'hex') AS "keyHash", revoked_at = now() AS "isNew"`;
    if (row === undefined) return null;
    const { isNew, ...key } = row;
    if (isNew) await onEnd?.(tx, key);
    return key;
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
  const rows = await sql<(Omit<EndedKey, 'name'> & { isOver: boolean })[]>`
    SELECT id AS "keyId", user_id AS "userId", encode(hash, 'hex') AS "keyHash",
      revoked_at < now() - ${COMPLETED_AFTER}::interval AS "isOver"
    FROM api_keys WHERE revoked_at IS NOT NULL AND NOT revocation_told ORDER BY revoked_at LIMIT ${UNTOLD_KEYS}`;
  for (const { keyId, userId, keyHash, isOver } of rows) {
    await nodes.revoke({ userId, keyHash });
    if (isOver) await markTold(sql, keyId);
  }
}

/** Whether it was this call that completed it. */
async function markTold(sql: Sql, keyId: string): Promise<boolean> {
  return await sql.transaction('readCommitted', async (tx) => {
    const told = await tx`UPDATE api_keys SET revocation_told = true WHERE id = ${keyId} AND NOT revocation_told`;
    return told.count > 0;
  });
}
