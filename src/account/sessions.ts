// Sessions and their refresh tokens: one row per sign-in, asked for on every request. What is not in Postgres is not signed in, at once and
// on every node. A refresh token has 256 random bits, is kept as its SHA-256, and works once; a used one that is shown again ends its session,
// unless it is the same request, whose answer was lost.
import { createHmac, hash, randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import type { Caller } from '../http/caller.js';
import type { Queries, Sql } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-text.js';
import { type UserRow, userColumns } from './users.js';

/** Sessions of one user; the one that was used longest ago makes room. Nobody has so many browsers, scripts that forget to log out do. */
export const SESSIONS_MAX = 100;
/** `last_use` is written no more often. */
const LAST_USE_MS = 60_000;
/** Of a User-Agent header; what is behind doesn't tell browsers apart. */
const USER_AGENT_CHARACTERS = 255;

export interface SignInClient {
  readonly userAgent: string;
  readonly ipAddress: string;
}

/** Which session it is, and whose. */
export interface SessionOf {
  readonly userId: string;
  readonly sessionId: string;
}

export type StartedSession = NonNullable<Awaited<ReturnType<typeof startSession>>>;

export const SessionView = z
  .object({
    id: z.uuid(),
    userAgent: z.string(),
    ipAddress: z.string(),
    creationDate: WireTime,
    lastUse: WireTime.describe('UTC, to the minute'),
    current: z.boolean().describe('Whether this request belongs to it'),
  })
  .meta({ id: 'Session' });
export type SessionView = z.infer<typeof SessionView>;

interface VerifiedUser {
  readonly userId: string;
  readonly passwordHash: string;
  /** A code was accepted. */
  readonly twoFactor?: boolean;
}

/**
 * Starts a session if password and second factor are still as they were verified, otherwise null. So a change of one of them also
 * ends a sign-in with the old one that is under way. The user's row orders it against `endSessions`.
 */
export async function startSession(
  sql: Sql,
  { userId, passwordHash, twoFactor = false }: VerifiedUser,
  client: SignInClient,
  nowMs: number,
) {
  const sessionId = uuidv7();
  const now = new Date(nowMs);
  const expiresAt = new Date(nowMs + REFRESH_TOKEN_MS);
  const { token, hash } = newToken();
  return await sql.transaction('readCommitted', async (tx) => {
    const [row] = await tx`
      SELECT FROM users
      WHERE id = ${userId} AND password_hash = ${passwordHash} AND (totp_secret IS NOT NULL) = ${twoFactor}
        AND suspended_at IS NULL FOR NO KEY UPDATE`;
    if (row === undefined) return null;
    await tx`
      DELETE FROM sessions WHERE id IN (
        SELECT id FROM sessions WHERE user_id = ${userId} ORDER BY last_use DESC, id DESC OFFSET ${SESSIONS_MAX - 1}
        FOR UPDATE SKIP LOCKED)`;
    await tx`
      INSERT INTO sessions (id, user_id, user_agent, ip_address, creation_date, last_use, expires_at)
      VALUES (${sessionId}, ${userId}, ${printable(client.userAgent)}, ${client.ipAddress}, ${now}, ${now}, ${expiresAt})`;
    await tx`INSERT INTO refresh_tokens (hash, session_id, expires_at) VALUES (${hash}, ${sessionId}, ${expiresAt})`;
    return { sessionId, refreshToken: token };
  });
}

/** Whose live session it is, with the plan and the role of this moment; null when it is none of that user. One query over two primary keys. */
export async function findSession(
  sql: Queries,
  { userId, sessionId }: SessionOf,
  nowMs: number,
): Promise<{ readonly caller: Caller; readonly lastUseIsOld: boolean } | null> {
  const [row] = await sql<(Pick<UserRow, 'plan' | 'own_limit' | 'role'> & { last_use: Date; two_factor: boolean })[]>`
    SELECT u.plan, u.own_limit, u.role, u.totp_secret IS NOT NULL AS two_factor, s.last_use FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE s.id = ${sessionId} AND s.user_id = ${userId} AND s.expires_at > ${new Date(nowMs)} AND u.suspended_at IS NULL`;
  if (row === undefined) return null;
  return {
    caller: {
      ...{ userId, plan: row.plan, ownLimit: row.own_limit, role: row.role, sessionId },
      twoFactor: row.two_factor,
    },
    lastUseIsOld: nowMs - row.last_use.getTime() >= LAST_USE_MS,
  };
}

/** Writes `last_use` if nobody else has in the last minute. */
export async function touchSession(sql: Queries, sessionId: string, nowMs: number): Promise<void> {
  await sql`
    UPDATE sessions SET last_use = ${new Date(nowMs)}
    WHERE id = ${sessionId} AND last_use <= ${new Date(nowMs - LAST_USE_MS)}`;
}

/** The live ones, the one that was used last first. */
export async function listSessions(
  sql: Queries,
  { userId, sessionId }: Pick<Caller, 'userId' | 'sessionId'>,
  nowMs: number,
): Promise<SessionView[]> {
  const rows = await sql<(SignInClient & { id: string; creationDate: Date; lastUse: Date })[]>`
    SELECT id, user_agent AS "userAgent", ip_address AS "ipAddress", creation_date AS "creationDate", last_use AS "lastUse" FROM sessions
    WHERE user_id = ${userId} AND expires_at > ${new Date(nowMs)} ORDER BY last_use DESC, id DESC`;
  return rows.map((row) => ({
    ...row,
    creationDate: wireTime(row.creationDate),
    lastUse: wireTime(row.lastUse),
    current: row.id === sessionId,
  }));
}

/** Whether the user had that session. Waits for a refresh of it that is under way, whose new tokens end with it. */
export async function endSession(sql: Sql, userId: string, sessionId: string): Promise<boolean> {
  // Whatever the database's default is: a snapshot would fail on the row that a refresh has just changed.
  return await sql.transaction('readCommitted', async (tx) => {
    const ended = await tx`DELETE FROM sessions WHERE id = ${sessionId} AND user_id = ${userId}`;
    return ended.count > 0;
  });
}

/** Ends a user's sessions, all but one; a sign-in that commits before it is ended as well, one that commits after it lives. */
export async function endSessions(sql: Sql, userId: string, exceptSessionId: string | null): Promise<void> {
  await sql.transaction('readCommitted', async (tx) => {
    await tx`SELECT FROM users WHERE id = ${userId} FOR NO KEY UPDATE`;
    await endOtherSessions(tx, userId, exceptSessionId);
  });
}

/** The same inside a transaction that has changed or locked the user's row, as a change of the password has. */
export async function endOtherSessions(sql: Queries, userId: string, exceptSessionId: string | null): Promise<void> {
  await sql`DELETE FROM sessions WHERE user_id = ${userId} AND id IS DISTINCT FROM ${exceptSessionId}::uuid`;
}

export async function sweepSessions(sql: Queries, nowMs: number): Promise<number> {
  const now = new Date(nowMs);
  const sessions = await sql`DELETE FROM sessions WHERE expires_at <= ${now}`;
  const tokens = await sql`DELETE FROM refresh_tokens WHERE expires_at <= ${now}`;
  return sessions.count + tokens.count;
}

/** Postgres stores no NUL, and nobody wants to see the other control characters. */
const printable = (text: string): string => text.replace(/\p{Cc}/gu, '').slice(0, USER_AGENT_CHARACTERS);

export const REFRESH_TOKEN_MS = 30 * 24 * 3600 * 1000;
/** However often it is refreshed: after 90 days somebody types the password again. */
export const SESSION_MAX_MS = 90 * 24 * 3600 * 1000;
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

/** In which the same request again has the same answer, as long as its tokens have not been used. A line that breaks is there again in minutes. */
const AGAIN = '1 hour';

/** Of a session, or of a link to another password. */
export function newToken(): { readonly token: string; readonly hash: Buffer } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, hash: hashOf(token) };
}

/** As random as the salt is, and the same again for the same two. */
const successorOf = (token: string, salt: Uint8Array): string =>
  createHmac('sha256', salt).update(token).digest('base64url');

/** Whether it has the form of one: what hasn't, nobody was ever given. */
export const isToken = (text: string): boolean => TOKEN.test(text);

/** Long enough that nobody guesses it who has stolen a used token. */
export const isRefreshKey = (text: string): boolean => /^[!-~]{16,255}$/.test(text);

/** Whose token it is or was, of a session that has not been ended; null: nobody's. */
export async function ownerOfToken(sql: Queries, token: string): Promise<SessionOf | null> {
  const [owner] = await sql<SessionOf[]>`
    SELECT s.user_id AS "userId", s.id AS "sessionId"
    FROM refresh_tokens r JOIN sessions s ON s.id = r.session_id WHERE r.hash = ${hashOf(token)}`;
  return owner ?? null;
}

interface Refreshing {
  readonly nowMs: number;
  /** performance.now() when the request came. */
  readonly arrivedAt: number;
  /** The Idempotency-Key, which nobody knows but who has sent the request; null: it has none. */
  readonly key: string | null;
}

/**
 * Takes a token and makes the next one in one transaction, so that of any number of requests with one token one succeeds, or those with the same
 * key. The session's row is locked throughout: a session that is being ended mints nothing, and what was minted before ends with it.
 */
export async function refreshSession(sql: Sql, token: string, { nowMs, arrivedAt, key }: Refreshing): Promise<Refresh> {
  const hash = hashOf(token);
  const now = new Date(nowMs);
  const salt = randomBytes(TOKEN_BYTES);
  const [againHash, keptSalt] = key === null ? [null, null] : [hashOf(key), salt];
  return await sql.transaction('readCommitted', async (tx): Promise<Refresh> => {
    // Includes the wait for a connection. Postgres' own clock orders requests of all nodes; theirs may differ.
    const waitedMs = performance.now() - arrivedAt;
    const [session] = await tx<SessionRow[]>`
      SELECT id, user_id, creation_date FROM sessions
      WHERE id = (SELECT session_id FROM refresh_tokens WHERE hash = ${hash}) AND expires_at > ${now}
      FOR UPDATE`;
    if (session === undefined) return { outcome: 'unknown' };
    // A statement of its own, so that it sees what the lock's last holder did.
    const used = await tx`
      UPDATE refresh_tokens SET used_at = clock_timestamp(), again_hash = ${againHash}, salt = ${keptSalt}
      WHERE hash = ${hash} AND used_at IS NULL AND expires_at > ${now}`;
    if (used.count === 0) {
      const lost = againHash === null ? null : await lostSuccessor(tx, token, againHash, now);
      return lost === null ? await refuse(tx, hash, session, waitedMs) : await refreshed(tx, session, lost);
    }
    const next = successorOf(token, salt);
    const result = await refreshed(tx, session, next);
    if (result.outcome === 'unknown') return result;
    const expiresAt = new Date(Math.min(nowMs + REFRESH_TOKEN_MS, session.creation_date.getTime() + SESSION_MAX_MS));
    await tx`INSERT INTO refresh_tokens (hash, session_id, expires_at) VALUES (${hashOf(next)}, ${session.id}, ${expiresAt})`;
    await tx`
      DELETE FROM refresh_tokens WHERE hash IN (
        SELECT hash FROM refresh_tokens WHERE session_id = ${session.id} AND used_at IS NOT NULL
        ORDER BY used_at DESC OFFSET ${USED_TOKENS_MAX})`;
    await tx`UPDATE sessions SET last_use = ${now}, expires_at = ${expiresAt} WHERE id = ${session.id}`;
    return result;
  });
}

interface SessionRow {
  readonly id: string;
  readonly user_id: string;
  readonly creation_date: Date;
}

async function refreshed(tx: Queries, session: SessionRow, refreshToken: string): Promise<Refresh> {
  const [user] = await tx<UserRow[]>`
    SELECT ${userColumns(tx)} FROM users
    WHERE id = ${session.user_id} AND suspended_at IS NULL`;
  return user === undefined
    ? { outcome: 'unknown' }
    : { outcome: 'refreshed', sessionId: session.id, refreshToken, user };
}

/** The next token after a used one, for who has used that with the same key and has not used the next one: its answer was lost. Null: it is another request. */
async function lostSuccessor(tx: Queries, token: string, againHash: Buffer, now: Date): Promise<string | null> {
  const [row] = await tx<{ salt: Buffer }[]>`
    SELECT salt FROM refresh_tokens
    WHERE hash = ${hashOf(token)} AND again_hash = ${againHash} AND used_at > now() - ${AGAIN}::interval`;
  if (row === undefined) return null;
  const next = successorOf(token, row.salt);
  const unused =
    await tx`SELECT FROM refresh_tokens WHERE hash = ${hashOf(next)} AND used_at IS NULL AND expires_at > ${now}`;
  return unused.length > 0 ? next : null;
}

/** Why a token of a live session is not taken; a stolen one takes the session with it. */
async function refuse(tx: Queries, hash: Buffer, session: SessionRow, waitedMs: number): Promise<Refresh> {
  const [row] = await tx<{ used: boolean; raced: boolean | null }[]>`
    SELECT used_at IS NOT NULL AS used, used_at > now() - make_interval(secs => ${waitedMs / 1000}) AS raced
    FROM refresh_tokens WHERE hash = ${hash}`;
  if (row === undefined || !row.used) return { outcome: 'unknown' };
  if (row.raced === true) return { outcome: 'raced' };
  await tx`DELETE FROM sessions WHERE id = ${session.id}`;
  return { outcome: 'reused', userId: session.user_id, sessionId: session.id };
}

/** It has random bits enough: no salt is needed. */
export const hashOf = (token: string): Buffer => hash('sha256', token, 'buffer');
