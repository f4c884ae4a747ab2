// The way back in for who has forgotten the password: a link by mail, whose token has 256 random bits, is kept as its SHA-256, and is good once
// and for an hour; and the new password that it sets.
import { z } from 'zod';
import { messageOfError } from '../error-text.js';
import { Failure, Unavailable } from '../errors.js';
import type { GuardedOperation } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { noContent, readJson } from '../http/json.js';
import { jsonBody } from '../http/openapi.js';
import type { Route } from '../http/router.js';
import type { Queries, Sql } from '../store/postgres.js';
import { fromHere } from './authenticate.js';
import type { AccountParts } from './parts.js';
import { endOtherSessions, hashOf, isToken, newToken } from './sessions.js';
import { type Attempt, rules, STRANGERS, throttledAs, tooMany } from './throttle.js';
import { EmailField, findUserByEmail, hashPassword, NewPasswordField, normaliseEmail } from './users.js';

export const RESET_MINUTES = 60;
/** Of one account at a time; the oldest one makes room. */
export const RESETS_MAX = 5;

/** Null: the account is gone, or has another address than the one that the link is for. */
export async function createReset(
  tx: Queries,
  { id: userId, email }: { readonly id: string; readonly email: string },
  nowMs: number,
): Promise<string | null> {
  const { token, hash } = newToken();
  const expiresAt = new Date(nowMs + RESET_MINUTES * 60_000);
  // A change of the address, which ends its links, waits for this one, or this one for it.
  const [user] = await tx`SELECT FROM users WHERE id = ${userId} AND email = ${email} FOR NO KEY UPDATE`;
  if (user === undefined) return null;
  await tx`
    DELETE FROM password_resets WHERE hash IN (
      SELECT hash FROM password_resets WHERE user_id = ${userId} ORDER BY expires_at DESC OFFSET ${RESETS_MAX - 1})`;
  await tx`INSERT INTO password_resets (hash, user_id, expires_at) VALUES (${hash}, ${userId}, ${expiresAt})`;
  return token;
}

/** Where it leads on the dashboard. What is behind the # is sent to no server, and is in no log. */
export function resetAddress(baseUrl: string | null, token: string): string {
  const base = baseUrl ?? '';
  return `${base.endsWith('/') ? base.slice(0, -1) : base}/reset#${token}`;
}

/** Whose it is; null: nobody's, or not any more. */
async function ownerOfReset(sql: Queries, token: string, nowMs: number): Promise<string | null> {
  const [row] = await sql<{ user_id: string }[]>`
    SELECT user_id FROM password_resets WHERE hash = ${hashOf(token)} AND expires_at > ${new Date(nowMs)}`;
  return row?.user_id ?? null;
}

/** Sets the password, and ends all sessions and all other links of the account. False: the token was used meanwhile. */
async function applyReset(sql: Sql, token: string, passwordHash: string, nowMs: number): Promise<boolean> {
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

interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

export type Mailer = Awaited<ReturnType<typeof openMailer>>;

interface MailerOptions {
  /** smtp: or smtps:, with the name and the password in it. */
  readonly url: string;
  readonly from: string;
  readonly onProblem: (reason: string) => void;
}

const SENDING_MAX = 20;
const CONNECTIONS_MAX = 2;
const TIMEOUT_MS = 20_000;

/** Its driver is read only where mail is sent. */
export async function openMailer({ url, from, onProblem }: MailerOptions) {
  const { createTransport } = await import('nodemailer');
  const { hostname, port, protocol, username, password } = new URL(url);
  const secure = protocol === 'smtps:';
  const transport = createTransport(
    {
      ...{ host: hostname, secure, port: port === '' ? portOf(secure) : Number(port), pool: true },
      ...{ maxConnections: CONNECTIONS_MAX, connectionTimeout: TIMEOUT_MS, greetingTimeout: TIMEOUT_MS },
      socketTimeout: TIMEOUT_MS,
      ...(username === '' ? {} : { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    },
    { from },
  );
  const sending = new Set<Promise<void>>();

  async function make(mail: () => Promise<Mail | null>): Promise<void> {
    try {
      const made = await mail();
      if (made !== null) await transport.sendMail(made);
    } catch (error) {
      onProblem(messageOfError(error));
    }
  }

  return {
    /** Sends it beside what the caller does; what fails is for the log. Throws Failure('unavailable') when too many are being sent. */
    send(mail: () => Promise<Mail | null>): void {
      if (sending.size >= SENDING_MAX) throw new Unavailable('mailBusy');
      const work = make(mail).finally(() => sending.delete(work));
      sending.add(work);
    },
    async stop(): Promise<void> {
      await Promise.allSettled(sending);
      transport.close();
    },
  };
}

/** RFC 6409 and RFC 8314. */
const portOf = (secure: boolean): number => (secure ? 465 : 587);

interface ResetRouteParts
  extends Pick<AccountParts, 'sqlOf' | 'strangers' | 'throttle' | 'baseUrl' | 'addressOf' | 'now'> {
  /** Null: the server sends none. */
  readonly mailer: Mailer | null;
}

const Request = z.strictObject({ email: EmailField }).meta({ id: 'PasswordResetRequest' });
const Reset = z
  .strictObject({ token: z.string().max(100, 'is too long'), newPassword: NewPasswordField })
  .meta({ id: 'PasswordReset' });

export function createResetRoutes(parts: ResetRouteParts): Route[] {
  const { sqlOf, strangers, throttle, mailer, baseUrl, addressOf, now } = parts;
  const sql = sqlOf(STRANGERS);

  /** Counted before anything is looked up, and whether or not there is such an account. */
  async function count(address: string, attempts: readonly Attempt[]): Promise<void> {
    const refusal =
      throttle.known(attempts) ?? (await strangers.ask([address, 'reset'], () => throttle.take(sql, attempts)));
    if (refusal !== null) await strangers.refuse(address, tooMany(refusal));
  }

  async function mailTo(email: string): Promise<Mail | null> {
    const user = await findUserByEmail(sql, email);
    if (user === null || user.suspended_at !== null) return null;
    const token = await sql.transaction('readCommitted', (tx) => createReset(tx, user, now()));
    if (token === null) return null;
    return { to: user.email, subject: 'Another password for Sluice', text: textWith(resetAddress(baseUrl, token)) };
  }

  /** The answer is there before the account is looked for: nothing of it says whether there is one. */
  async function request(exchange: Exchange) {
    const address = throttledAs(addressOf(exchange));
    const { email } = await readJson(exchange, Request);
    if (mailer === null) throw new Failure('mailOff');
    const normalised = normaliseEmail(email);
    await count(address, [
      [rules.resetsOfAddress, address],
      [rules.resetsOfAccount, normalised],
    ]);
    mailer.send(() => mailTo(normalised));
    return noContent;
  }

  async function reset(exchange: Exchange) {
    const address = throttledAs(addressOf(exchange));
    const { token, newPassword } = await readJson(exchange, Reset);
    await count(address, [[rules.resetsOfAddress, address]]);
    // Nothing is hashed for a token that is nobody's.
    const owner = isToken(token)
      ? await strangers.ask([address, 'reset'], () => ownerOfReset(sql, token, now()))
      : null;
    if (owner === null) throw wrongToken();
    const passwordHash = await hashPassword(newPassword, [address, owner]);
    if (!(await applyReset(sqlOf(owner), token, passwordHash, now()))) throw wrongToken();
    return noContent;
  }

  return fromHere(baseUrl, [
    { name: 'POST /web/auth/reset-request', operation: requestOperation, handle: request },
    { name: 'POST /web/auth/reset', operation: resetOperation, handle: reset },
  ]);
}

const wrongToken = (): Failure => new Failure('badRequest', 'token: is unknown, used or expired');

function textWith(link: string): string {
  return `Somebody, you perhaps, has asked for another password of your account.

Set it here, within ${RESET_MINUTES} minutes:
${link}

If it was not you, there is nothing to do: your password stays as it is.
`;
}

const requestOperation: GuardedOperation = {
  summary: 'Asks for a link that sets another password',
  description: `It is sent to the address, if there is such an account, and is good once and for ${RESET_MINUTES} minutes. The answer is the same in any case.`,
  tag: 'auth',
  requestBody: jsonBody(Request),
  responses: { 204: { description: 'Asked for.' } },
  errors: ['mailOff', 'tooManyAttempts'],
};

const resetOperation: GuardedOperation = {
  summary: 'Sets another password by the token of a link',
  description: 'All sessions of the account end. Its keys and its second factor stay.',
  tag: 'auth',
  requestBody: jsonBody(Reset),
  responses: { 204: { description: 'Set: sign in with it.' } },
  errors: ['tooManyAttempts'],
};
