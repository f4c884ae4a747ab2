// The Ed25519 keys that sign access tokens: kept in Postgres, made anew every 30 days, and known to every node before they sign.
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Queries, Sql } from '../store/postgres.js';

export interface SigningKey {
  /** The `kid` of its tokens. */
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly signsFromMs: number;
}

export type SigningKeys = Awaited<ReturnType<typeof openSigningKeys>>;

/** A leaked key is worth something for a month at most. */
export const ROTATION_MS = 30 * 24 * 3600 * 1000;
/** A key is made so long before it signs: every node has reloaded twice by then, and so has every client that fetches our JWKS. */
export const ROTATION_AHEAD_MS = 15 * 60_000;
/** A key goes so long after its successor took over: its last token lived for 15 minutes, and clocks differ by less than the rest. */
export const RETIRED_KEY_MS = 3600_000;
/** How often each node reads the keys. */
export const KEYS_RELOAD_MS = 5 * 60_000;
/** Tokens with invented key ids cause no more questions to Postgres than one in this time. */
const UNKNOWN_KEY_RELOAD_MS = 1_000;
/** Any number will do that no other program uses on the same database. */
const ROTATION_LOCK = 5_749_281_699;

interface KeyRow {
  readonly id: string;
  readonly public_key: Buffer;
  readonly private_key: Buffer;
  readonly signs_from: Date;
}

/** Reads the keys, and makes the first one of a new database; nodes that start at once make one together. */
export async function openSigningKeys(sql: Sql, now: () => number) {
  let keys: readonly SigningKey[] = [];
  let running: Promise<void> | null = null;
  let reloadedAt = 0;

  async function load(): Promise<void> {
    const nowMs = now();
    reloadedAt = nowMs;
    let rows = await readRows(sql);
    if (isRotationDue(rows, nowMs)) rows = await rotate(sql, nowMs);
    keys = rows.map((row) => keys.find(({ id }) => id === row.id) ?? fromRow(row));
  }

  function reload(): Promise<void> {
    running ??= load().finally(() => {
      running = null;
    });
    return running;
  }

  const known = (kid: string): SigningKey | null => keys.find(({ id }) => id === kid) ?? null;

  await reload();
  return {
    current(): SigningKey {
      const nowMs = now();
      // The first key of a database was made by another node, whose clock may be ahead.
      const key = keys.findLast(({ signsFromMs }) => signsFromMs <= nowMs) ?? keys[0];
      if (key === undefined) throw new Error('There is no signing key');
      return key;
    },
    /** Whether it is known here, and not retired. */
    has: (kid: string): boolean => known(kid) !== null,
    /** By `kid`; null when there is none. One that isn't known here is looked for in Postgres, at most once a second. */
    async find(kid: string): Promise<SigningKey | null> {
      const key = known(kid);
      if (key !== null) return key;
      const isRecent = Math.abs(now() - reloadedAt) < UNKNOWN_KEY_RELOAD_MS;
      if (running === null && isRecent) return null;
      await reload();
      return known(kid);
    },
    /** Every key that tokens in use may be signed with, and the next one. */
    all: () => keys,
    /** Reads the keys anew and makes the next one when it is time to. */
    reload,
  };
}

function isRotationDue(rows: readonly KeyRow[], nowMs: number): boolean {
  const newest = rows.at(-1);
  return newest === undefined || newest.signs_from.getTime() + ROTATION_MS - ROTATION_AHEAD_MS <= nowMs;
}

/** Makes the next key, unless another node was first, and removes those that nobody's token needs; returns what there is then. */
async function rotate(sql: Sql, nowMs: number): Promise<KeyRow[]> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  return await sql.transaction('readCommitted', async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${ROTATION_LOCK})`;
    const before = await readRows(tx);
    if (!isRotationDue(before, nowMs)) return before;
    const signsFrom = new Date(before.length === 0 ? nowMs : nowMs + ROTATION_AHEAD_MS);
    await tx`
      INSERT INTO signing_keys (id, public_key, private_key, signs_from)
      VALUES (${uuidv7()}, ${publicKey.export({ type: 'spki', format: 'der' })},
        ${privateKey.export({ type: 'pkcs8', format: 'der' })}, ${signsFrom})`;
    await tx`
      DELETE FROM signing_keys k WHERE EXISTS (
        SELECT FROM signing_keys next
        WHERE next.signs_from > k.signs_from AND next.signs_from <= ${new Date(nowMs - RETIRED_KEY_MS)})`;
    return await readRows(tx);
  });
}

async function readRows(sql: Queries): Promise<KeyRow[]> {
  return [
    ...(await sql<KeyRow[]>`SELECT id, public_key, private_key, signs_from FROM signing_keys ORDER BY signs_from, id`),
  ];
}

function fromRow(row: KeyRow): SigningKey {
  return {
    id: row.id,
    publicKey: createPublicKey({ key: row.public_key, type: 'spki', format: 'der' }),
    privateKey: createPrivateKey({ key: row.private_key, type: 'pkcs8', format: 'der' }),
    signsFromMs: row.signs_from.getTime(),
  };
}
