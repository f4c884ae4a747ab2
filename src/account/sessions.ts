// Sessions: one row per sign-in, asked for on every request. What is not in Postgres is not signed in, at once and on every node.
import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import type { Caller } from '../http/caller.js';
import type { Queries, Sql } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-time.js';
import { newRefreshToken, REFRESH_TOKEN_MS } from './refresh-tokens.js';

/** Sessions of one user; the one that was used longest ago makes room. Nobody has so many browsers, scripts that forget to log out do. */
const SESSIONS_MAX = 100;
/** `last_use` is written no more often. */
const LAST_USE_MS = 60_000;
/** Of a User-Agent header; what is behind doesn't tell browsers apart. */
const USER_AGENT_CHARACTERS = 255;

/** Who signs in, from where. */
export interface Client {
  readonly userAgent: string;
  readonly ipAddress: string;
}

export interface StartedSession {
  readonly sessionId: string;
  readonly refreshToken: string;
}

/** A session as its owner sees it. */
export const SessionView = z.object({
  id: z.uuid(),
  userAgent: z.string(),
  ipAddress: z.string(),
  creationDate: WireTime,
  lastUse: WireTime.describe('UTC, to the minute'),
  current: z.boolean().describe('Whether this request belongs to it'),
});
export type SessionView = z.infer<typeof SessionView>;

/**
 * Starts a session if the password is still the one that was verified, otherwise null. So a change of the password also
 * ends a sign-in with the old one that is under way. The user's row orders it against `endSessions`.
 */
export async function startSession(
  sql: Sql,
  user: { readonly userId: string; readonly passwordHash: string },
  client: Client,
  nowMs: number,
): Promise<StartedSession | null> {
  const sessionId = uuidv7();
  const now = new Date(nowMs);
  const expiresAt = new Date(nowMs + REFRESH_TOKEN_MS);
  const { token, hash } = newRefreshToken();
  return await sql.transaction('readCommitted', async (tx) => {
    const [row] = await tx`
      SELECT FROM users WHERE id = ${user.userId} AND password_hash = ${user.passwordHash} FOR NO KEY UPDATE`;
    if (row === undefined) return null;
    await tx`
      DELETE FROM sessions WHERE id IN (
        SELECT id FROM sessions WHERE user_id = ${user.userId} ORDER BY last_use DESC, id DESC OFFSET ${SESSIONS_MAX - 1}
        FOR UPDATE SKIP LOCKED)`;
    await tx`
      INSERT INTO sessions (id, user_id, user_agent, ip_address, creation_date, last_use, expires_at)
      VALUES (${sessionId}, ${user.userId}, ${printable(client.userAgent)}, ${client.ipAddress}, ${now}, ${now}, ${expiresAt})`;
    await tx`INSERT INTO refresh_tokens (hash, session_id, expires_at) VALUES (${hash}, ${sessionId}, ${expiresAt})`;
    return { sessionId, refreshToken: token };
  });
}

/** Whose live session it is, with the plan of this moment; null when it is none of that user. One query over two primary keys. */
export async function findSession(
  sql: Queries,
  { userId, sessionId }: { readonly userId: string; readonly sessionId: string },
  nowMs: number,
): Promise<{ readonly caller: Caller; readonly lastUseIsOld: boolean } | null> {
  const [row] = await sql<{ plan: string; last_use: Date }[]>`
    SELECT u.plan, s.last_use FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE s.id = ${sessionId} AND s.user_id = ${userId} AND s.expires_at > ${new Date(nowMs)}`;
  if (row === undefined) return null;
  return {
    caller: { userId, plan: row.plan, sessionId },
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
  const rows = await sql<{ id: string; user_agent: string; ip_address: string; creation_date: Date; last_use: Date }[]>`
    SELECT id, user_agent, ip_address, creation_date, last_use FROM sessions
    WHERE user_id = ${userId} AND expires_at > ${new Date(nowMs)} ORDER BY last_use DESC, id DESC`;
  return rows.map((row) => ({
    id: row.id,
    userAgent: row.user_agent,
    ipAddress: row.ip_address,
    creationDate: wireTime(row.creation_date),
    lastUse: wireTime(row.last_use),
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

/** Removes what has expired; returns how many rows went. */
export async function sweepSessions(sql: Queries, nowMs: number): Promise<number> {
  const now = new Date(nowMs);
  const sessions = await sql`DELETE FROM sessions WHERE expires_at <= ${now}`;
  const tokens = await sql`DELETE FROM refresh_tokens WHERE expires_at <= ${now}`;
  return sessions.count + tokens.count;
}

/** Postgres stores no NUL, and nobody wants to see the other control characters. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, '').slice(0, USER_AGENT_CHARACTERS);
}
