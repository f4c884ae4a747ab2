// Refresh tokens: 256 random bits, kept as their SHA-256, for one use; a used one that is shown again ends its session.
import { createHash, randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Queries, Sql } from '../store/postgres.js';
import type { UserRow } from './users.js';

export const REFRESH_TOKEN_MS = 30 * 24 * 3600 * 1000;
/** However often it is refreshed: after 90 days somebody types the password again. */
const SESSION_MAX_MS = 90 * 24 * 3600 * 1000;
/** Used tokens of a session that are remembered: 30 days of one in a quarter of an hour are 2,880. An older one is just unknown. */
const USED_TOKENS_MAX = 3_000;

const TOKEN_BYTES = 32;
/** 32 bytes of base64url. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/;

export type Refresh =
  | { readonly outcome: 'refreshed'; readonly sessionId: string; readonly refreshToken: string; readonly user: UserRow }
  /** Used by a request that was under way at the same time: two tabs, not a thief. The session lives. */
  | { readonly outcome: 'raced' }
  /** Used before this request came: the session is ended. */
  | { readonly outcome: 'reused'; readonly userId: string; readonly sessionId: string }
  | { readonly outcome: 'unknown' };

export function newRefreshToken(): { readonly token: string; readonly hash: Buffer } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, hash: hashOf(token) };
}

/**
 * Takes a token and makes the next one in one transaction, so that of any number of requests with one token one succeeds.
 * `arrivedAt` is performance.now() when the request came. The session's row is locked throughout: a session that is being
 * ended mints nothing, and what was minted before ends with it.
 */
export async function refreshSession(sql: Sql, token: string, nowMs: number, arrivedAt: number): Promise<Refresh> {
  if (!TOKEN.test(token)) return { outcome: 'unknown' };
  const hash = hashOf(token);
  const now = new Date(nowMs);
  return await sql.transaction('readCommitted', async (tx): Promise<Refresh> => {
    // Includes the wait for a connection. Postgres' own clock orders requests of all nodes; theirs may differ.
    const waitedMs = performance.now() - arrivedAt;
    const [session] = await tx<{ id: string; user_id: string; creation_date: Date }[]>`
      SELECT id, user_id, creation_date FROM sessions
      WHERE id = (SELECT session_id FROM refresh_tokens WHERE hash = ${hash}) AND expires_at > ${now}
      FOR UPDATE`;
    if (session === undefined) return { outcome: 'unknown' };
    // A statement of its own, so that it sees what the lock's last holder did.
    const used = await tx`
      UPDATE refresh_tokens SET used_at = clock_timestamp()
      WHERE hash = ${hash} AND used_at IS NULL AND expires_at > ${now}`;
    if (used.count === 0) return await refuse(tx, hash, session, waitedMs);
    const [user] = await tx<UserRow[]>`
      SELECT id, email, name, plan, creation_date FROM users WHERE id = ${session.user_id}`;
    if (user === undefined) return { outcome: 'unknown' };
    const next = newRefreshToken();
    const expiresAt = new Date(Math.min(nowMs + REFRESH_TOKEN_MS, session.creation_date.getTime() + SESSION_MAX_MS));
    await tx`INSERT INTO refresh_tokens (hash, session_id, expires_at) VALUES (${next.hash}, ${session.id}, ${expiresAt})`;
    await tx`
      DELETE FROM refresh_tokens WHERE hash IN (
        SELECT hash FROM refresh_tokens WHERE session_id = ${session.id} AND used_at IS NOT NULL
        ORDER BY used_at DESC OFFSET ${USED_TOKENS_MAX})`;
    await tx`UPDATE sessions SET last_use = ${now}, expires_at = ${expiresAt} WHERE id = ${session.id}`;
    return { outcome: 'refreshed', sessionId: session.id, refreshToken: next.token, user };
  });
}

/** Why a token of a live session is not taken; a stolen one takes the session with it. */
async function refuse(
  tx: Queries,
  hash: Buffer,
  session: { readonly id: string; readonly user_id: string },
  waitedMs: number,
): Promise<Refresh> {
  const [row] = await tx<{ used: boolean; raced: boolean | null }[]>`
    SELECT used_at IS NOT NULL AS used, used_at > now() - make_interval(secs => ${waitedMs / 1000}) AS raced
    FROM refresh_tokens WHERE hash = ${hash}`;
  if (row === undefined || !row.used) return { outcome: 'unknown' };
  if (row.raced === true) return { outcome: 'raced' };
  await tx`DELETE FROM sessions WHERE id = ${session.id}`;
  return { outcome: 'reused', userId: session.user_id, sessionId: session.id };
}

/** Ends the session that a token is or was of; whether there was one. */
export async function endSessionOfToken(sql: Sql, token: string): Promise<boolean> {
  if (!TOKEN.test(token)) return false;
  return await sql.transaction('readCommitted', async (tx) => {
    const ended = await tx`
      DELETE FROM sessions WHERE id = (SELECT session_id FROM refresh_tokens WHERE hash = ${hashOf(token)})`;
    return ended.count > 0;
  });
}

/** It has 256 random bits: no salt is needed. */
function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
