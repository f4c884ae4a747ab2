// The second factor: time-based codes (RFC 6238: SHA-1, six digits, 30 seconds), and recovery codes in their place. Each is good once.
import { createHash, randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import type { Queries, Sql } from '../store/postgres.js';
import { endOtherSessions } from './sessions.js';

/** RFC 4226, section 4: 160 bits are recommended. */
const SECRET_BYTES = 20;
const PERIOD_SECONDS = 30;
/** Steps before and behind the present one: clocks of phones differ. */
const WINDOW = 1;
export const RECOVERY_CODES = 10;
/** 80 bits, sixteen letters of base32. */
const RECOVERY_BYTES = 10;
const ISSUER = 'Sluice';

export interface Enrolment {
  /** In base32, to be typed. */
  readonly secret: string;
  /** For a picture that a phone reads. */
  readonly uri: string;
}

/** A new secret, which counts when a code of it was confirmed. */
export async function beginTwoFactor(
  sql: Queries,
  user: { readonly id: string; readonly email: string },
): Promise<Enrolment> {
  const secret = randomBytes(SECRET_BYTES);
  await sql`UPDATE users SET totp_pending = ${secret} WHERE id = ${user.id}`;
  const totp = totpOf(secret, user.email);
  return { secret: totp.secret.base32, uri: totp.toString() };
}

export type Confirmation =
  | { readonly outcome: 'on'; readonly recoveryCodes: readonly string[] }
  | { readonly outcome: 'codeWrong' }
  | { readonly outcome: 'notBegun' };

/** The secret counts from here on, and every session but this one ends: they were begun without it. */
export async function confirmTwoFactor(
  sql: Sql,
  { userId, sessionId }: { readonly userId: string; readonly sessionId: string | null },
  code: string,
  nowMs: number,
): Promise<Confirmation> {
  return await sql.transaction('readCommitted', async (tx): Promise<Confirmation> => {
    const [row] = await tx<{ totp_pending: Buffer | null }[]>`
      SELECT totp_pending FROM users WHERE id = ${userId} FOR NO KEY UPDATE`;
    const pending = row?.totp_pending ?? null;
    if (pending === null) return { outcome: 'notBegun' };
    const step = stepOf(pending, code, nowMs);
    if (step === null) return { outcome: 'codeWrong' };
    await tx`
      UPDATE users SET totp_secret = totp_pending, totp_pending = NULL, totp_last_step = ${step} WHERE id = ${userId}`;
    await endOtherSessions(tx, userId, sessionId);
    return { outcome: 'on', recoveryCodes: await renewRecoveryCodes(tx, userId) };
  });
}

async function renewRecoveryCodes(tx: Queries, userId: string): Promise<readonly string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, newRecoveryCode);
  await tx`DELETE FROM recovery_codes WHERE user_id = ${userId}`;
  await tx`
    INSERT INTO recovery_codes (user_id, hash)
    SELECT ${userId}, decode(hash, 'hex') FROM unnest(${codes.map((code) => hashOf(bare(code)).toString('hex'))}::text[]) AS hash`;
  return codes;
}

function newRecoveryCode(): string {
  const { base32 } = new Secret({ buffer: new Uint8Array(randomBytes(RECOVERY_BYTES)).buffer });
  return (base32.match(/.{4}/g) ?? []).join('-');
}

export async function endTwoFactor(sql: Sql, userId: string): Promise<void> {
  await sql.transaction('readCommitted', async (tx) => {
    await tx`UPDATE users SET totp_secret = NULL, totp_pending = NULL WHERE id = ${userId}`;
    await tx`DELETE FROM recovery_codes WHERE user_id = ${userId}`;
  });
}

/** Whether it is a code of now that was not used before, or a recovery code, which then is gone. Once for all nodes. */
export async function acceptCode(sql: Queries, userId: string, code: string, nowMs: number): Promise<boolean> {
  const typed = bare(code);
  if (!/^\d{6}$/.test(typed)) {
    const used = await sql`DELETE FROM recovery_codes WHERE user_id = ${userId} AND hash = ${hashOf(typed)}`;
    return used.count > 0;
  }
  const [row] = await sql<{ totp_secret: Buffer | null }[]>`SELECT totp_secret FROM users WHERE id = ${userId}`;
  const secret = row?.totp_secret ?? null;
  const step = secret === null ? null : stepOf(secret, typed, nowMs);
  if (step === null) return false;
  const taken = await sql`
    UPDATE users SET totp_last_step = ${step}
    WHERE id = ${userId} AND totp_secret = ${secret} AND totp_last_step < ${step}`;
  return taken.count > 0;
}

/** The time step that the code is of; null: it is of none around now. The library compares in constant time. */
function stepOf(secret: Uint8Array, code: string, nowMs: number): number | null {
  const delta = totpOf(secret, '').validate({ token: bare(code), timestamp: nowMs, window: WINDOW });
  return delta === null ? null : Math.floor(nowMs / 1000 / PERIOD_SECONDS) + delta;
}

function totpOf(secret: Uint8Array, label: string): TOTP {
  return new TOTP({
    issuer: ISSUER,
    label,
    period: PERIOD_SECONDS,
    secret: new Secret({ buffer: new Uint8Array(secret).buffer }),
  });
}

/** As people type them: in groups, in any case. */
function bare(code: string): string {
  return code.replace(/[\s-]/g, '').toUpperCase();
}

function hashOf(code: string): Buffer {
  return createHash('sha256').update(code).digest();
}
