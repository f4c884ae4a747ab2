// Links that set another password: a token of 256 random bits, kept as its SHA-256, good once and for an hour.
import { createHash, randomBytes } from 'node:crypto';
import type { Queries, Sql } from '../store/postgres.js';
import { endOtherSessions } from './sessions.js';

const TOKEN_BYTES = 32;
export const RESET_MINUTES = 60;
/** Of one account at a time; the oldest one makes room. */
export const RESETS_MAX = 5;
const TOKEN = /^[A-Za-z0-9_-]{43}$/;

export async function createReset(sql: Sql, userId: string, nowMs: number): Promise<string> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const expiresAt = new Date(nowMs + RESET_MINUTES * 60_000);
  await sql.transaction('readCommitted', async (tx) => {
    await tx`
      DELETE FROM password_resets WHERE hash IN (
        SELECT hash FROM password_resets WHERE user_id = ${userId} ORDER BY expires_at DESC OFFSET ${RESETS_MAX - 1})`;
    await tx`INSERT INTO password_resets (hash, user_id, expires_at) VALUES (${hashOf(token)}, ${userId}, ${expiresAt})`;
  });
  return token;
}

/** Where it leads on the dashboard. What is behind the # is sent to no server, and is in no log. */
export function resetAddress(baseUrl: string | null, token: string): string {
  const base = baseUrl ?? '';
  return `${base.endsWith('/') ? base.slice(0, -1) : base}/reset#${token}`;
}

/** What can't be a token, so that nobody is asked about it. */
export function isResetToken(text: string): boolean {
  return TOKEN.test(text);
}

/** Whose it is; null: nobody's, or not any more. */
export async function ownerOfReset(sql: Queries, token: string, nowMs: number): Promise<string | null> {
  const [row] = await sql<{ user_id: string }[]>`
    SELECT user_id FROM password_resets WHERE hash = ${hashOf(token)} AND expires_at > ${new Date(nowMs)}`;
  return row?.user_id ?? null;
}

/** Sets the password, and ends all sessions and all other links of the account. False: the token was used meanwhile. */
export async function applyReset(sql: Sql, token: string, passwordHash: string, nowMs: number): Promise<boolean> {
  return await sql.transaction('readCommitted', async (tx) => {
    const [row] = await tx<{ user_id: string }[]>`
      DELETE FROM password_resets WHERE hash = ${hashOf(token)} AND expires_at > ${new Date(nowMs)} RETURNING user_id`;
    if (row === undefined) return false;
    await tx`UPDATE users SET password_hash = ${passwordHash} WHERE id = ${row.user_id}`;
    await tx`DELETE FROM password_resets WHERE user_id = ${row.user_id}`;
    await endOtherSessions(tx, row.user_id, null);
    return true;
  });
}

export async function sweepResets(sql: Queries, nowMs: number): Promise<void> {
  await sql`DELETE FROM password_resets WHERE expires_at <= ${new Date(nowMs)}`;
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
