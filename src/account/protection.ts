// What protects an account: its second factor, time-based codes (RFC 6238: SHA-1, six digits, 30 seconds) and recovery codes in their place, each
// good once; and its end. The routes of both ask for the password again.
import { randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { z } from 'zod';
import { Failure } from '../errors.js';
import { type Caller, type CallerRoute, callerRoute, type GuardedOperation } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, noContent, readJson } from '../http/json.js';
import { jsonAnswer, jsonBody } from '../http/openapi.js';
import type { Queries, Sql } from '../store/postgres.js';
import type { AccountParts } from './parts.js';
import { endOtherSessions, hashOf } from './sessions.js';
import { type Attempt, rules } from './throttle.js';
import { findUser, PasswordField } from './users.js';

/** RFC 4226, section 4: 160 bits are recommended. */
const SECRET_BYTES = 20;
const PERIOD_SECONDS = 30;
/** Steps before and behind the present one: clocks of phones differ. */
const WINDOW = 1;
export const RECOVERY_CODES = 10;
/** 80 bits, sixteen letters of base32. */
const RECOVERY_BYTES = 10;
const ISSUER = 'Sluice';

const Enrolment = z
  .object({
    secret: z.string().describe('In base32, to be typed'),
    uri: z.string().describe('`otpauth:`, for a picture that a phone reads'),
  })
  .meta({ id: 'TwoFactorSecret' });

/** A new secret, which counts when a code of it was confirmed. Throws Failure `conflict` where there is one that counts. */
async function beginTwoFactor(
  sql: Queries,
  user: { readonly id: string; readonly email: string },
): Promise<z.infer<typeof Enrolment>> {
  const secret = randomBytes(SECRET_BYTES);
  // Of an issuer's token nobody knows here whether the account has one.
  const begun = await sql`UPDATE users SET totp_pending = ${secret} WHERE id = ${user.id} AND totp_secret IS NULL`;
  if (begun.count === 0) throw new Failure('conflict', 'The second factor is on already');
  const totp = totpOf(secret, user.email);
  return { secret: totp.secret.base32, uri: totp.toString() };
}

type Confirmation =
  | { readonly outcome: 'on'; readonly recoveryCodes: readonly string[] }
  | { readonly outcome: 'codeWrong' }
  | { readonly outcome: 'notBegun' };

/** The secret counts from here on, and every session but this one ends: they were begun without it. */
async function confirmTwoFactor(
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

export async function endTwoFactor(tx: Queries, userId: string): Promise<void> {
  await tx`UPDATE users SET totp_secret = NULL, totp_pending = NULL WHERE id = ${userId}`;
  await tx`DELETE FROM recovery_codes WHERE user_id = ${userId}`;
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
const bare = (code: string): string => code.replace(/[\s-]/g, '').toUpperCase();

type ProtectionRouteParts = Pick<
  AccountParts,
  'sqlOf' | 'throttle' | 'verifyCurrent' | 'deleteAccount' | 'addressOf' | 'now'
>;

/** Six digits, or a recovery code. */
const CodeField = z.string().min(1, 'must not be empty').max(64, 'is too long');
const Password = z.strictObject({ currentPassword: PasswordField }).meta({ id: 'CurrentPassword' });
const Code = z.strictObject({ code: CodeField }).meta({ id: 'TwoFactorCode' });
const PasswordAndCode = z
  .strictObject({ currentPassword: PasswordField, code: CodeField })
  .meta({ id: 'TwoFactorRemoval' });

const Recovery = z
  .object({ recoveryCodes: z.array(z.string()).describe('Each good once, shown this once') })
  .meta({ id: 'RecoveryCodes' });

export function createProtectionRoutes(parts: ProtectionRouteParts): CallerRoute[] {
  const { sqlOf, throttle, verifyCurrent, now } = parts;
  return [
    callerRoute('POST /web/users/me/two-factor', beginOperation, async (caller, exchange) => {
      const user = await provenUser(parts, caller, exchange);
      return jsonReply(200, await beginTwoFactor(sqlOf(caller.userId), user));
    }),
    callerRoute('POST /web/users/me/two-factor/confirmation', confirmOperation, async (caller, exchange) => {
      const { code } = await readJson(exchange, Code);
      const sql = sqlOf(caller.userId);
      await throttle.require(sql, [[rules.codesOfAccount, caller.userId]]);
      const confirmed = await confirmTwoFactor(sql, caller, code, now());
      switch (confirmed.outcome) {
        case 'notBegun':
          throw new Failure('conflict', 'No second factor was asked for');
        case 'codeWrong':
          throw wrongCode();
        case 'on':
          return jsonReply(200, { recoveryCodes: confirmed.recoveryCodes });
      }
    }),
    callerRoute('POST /web/users/me/two-factor/removal', removeOperation, async (caller, exchange) => {
      const { currentPassword, code } = await readJson(exchange, PasswordAndCode);
      const sql = sqlOf(caller.userId);
      await verifyCurrent(sql, caller, currentPassword);
      const guess: Attempt = [rules.codesOfAccount, caller.userId];
      await throttle.require(sql, [guess]);
      if (!(await acceptCode(sql, caller.userId, code, now()))) throw wrongCode();
      await sql.transaction('readCommitted', (tx) => endTwoFactor(tx, caller.userId));
      await throttle.giveBack(sql, [guess]);
      return noContent;
    }),
    callerRoute('POST /web/users/me/deletion', deleteOperation, async (caller, exchange) => {
      const user = await provenUser(parts, caller, exchange);
      await parts.deleteAccount({ userId: user.id, email: user.email, address: parts.addressOf(exchange) });
      return noContent;
    }),
  ];
}

/** Whose account it is, after the password was said again. Throws Failure. */
async function provenUser({ sqlOf, verifyCurrent }: ProtectionRouteParts, caller: Caller, exchange: Exchange) {
  const { currentPassword } = await readJson(exchange, Password);
  const sql = sqlOf(caller.userId);
  await verifyCurrent(sql, caller, currentPassword);
  const user = await findUser(sql, caller.userId);
  if (user === null) throw new Failure('tokenInvalid');
  return user;
}

const wrongCode = (): Failure => new Failure('badRequest', 'code: is wrong, or was used');

const common = { tag: 'users', errors: ['tooManyAttempts', 'conflict'] } as const;

const beginOperation: GuardedOperation = {
  ...common,
  summary: 'Begins a second factor: a secret for a phone',
  description: 'It counts when a code of it was confirmed. Asked for again there is another secret.',
  requestBody: jsonBody(Password),
  responses: { 200: jsonAnswer('The secret.', Enrolment) },
};

const confirmOperation: GuardedOperation = {
  ...common,
  summary: 'Turns the second factor on, by a code of it',
  description: 'From here on signing in takes a code or a recovery code. Your other sessions end.',
  requestBody: jsonBody(Code),
  responses: { 200: jsonAnswer('It is on.', Recovery) },
};

const removeOperation: GuardedOperation = {
  ...common,
  summary: 'Turns the second factor off',
  requestBody: jsonBody(PasswordAndCode),
  responses: { 204: { description: 'It is off.' } },
  errors: ['tooManyAttempts'],
};

const deleteOperation: GuardedOperation = {
  ...common,
  summary: 'Deletes your account with its keys, sessions and scans, for good',
  description:
    'Its keys are refused from here on, on every node; its scans are gone within minutes. An account with a subscription at Stripe is a 409, and so is an ' +
    "operator's.",
  requestBody: jsonBody(Password),
  responses: { 204: { description: 'Deleted.' } },
};
