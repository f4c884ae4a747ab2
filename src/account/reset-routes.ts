// The way back in for who has forgotten the password: a link by mail, and the new password that it sets.
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import { noContent, readJson } from '../http/json.js';
import { jsonBody, type Operation } from '../http/openapi.js';
import type { Route } from '../http/router.js';
import type { SqlOf } from '../store/postgres.js';
import { isCrossSite } from './authenticate.js';
import type { Mail, Mailer } from './mail.js';
import { applyReset, createReset, isResetToken, ownerOfReset, RESET_MINUTES, resetAddress } from './resets.js';
import type { PasswordWork } from './sign-in.js';
import { STRANGERS, type Strangers, throttledAs } from './strangers.js';
import { type Attempt, resetsOfAccount, resetsOfAddress, type Throttle, tooMany } from './throttle.js';
import { EmailField, findUserByEmail, NewPasswordField, normaliseEmail } from './users.js';

export interface ResetRouteParts {
  readonly sqlOf: SqlOf;
  readonly strangers: Strangers;
  readonly throttle: Throttle;
  readonly passwords: Pick<PasswordWork, 'hash'>;
  /** Null: the server sends none. */
  readonly mailer: Mailer | null;
  readonly baseUrl: string | null;
  readonly addressOf: (exchange: Exchange) => string;
  readonly now: () => number;
}

const Request = z.strictObject({ email: EmailField }).meta({ id: 'PasswordResetRequest' });
const Reset = z
  .strictObject({ token: z.string().max(100, 'is too long'), newPassword: NewPasswordField })
  .meta({ id: 'PasswordReset' });

export function createResetRoutes(parts: ResetRouteParts): Route[] {
  const { sqlOf, strangers, throttle, passwords, mailer, baseUrl, addressOf, now } = parts;
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
    const link = resetAddress(baseUrl, await createReset(sql, user.id, now()));
    return { to: user.email, subject: 'Another password for Sluice', text: textWith(link) };
  }

  /** The answer is there before the account is looked for: nothing of it says whether there is one. */
  async function request(exchange: Exchange) {
    const address = throttledAs(addressOf(exchange));
    const { email } = await readJson(exchange, Request);
    if (mailer === null) throw new Failure('mailOff');
    const normalised = normaliseEmail(email);
    await count(address, [
      [resetsOfAddress, address],
      [resetsOfAccount, normalised],
    ]);
    mailer.send(() => mailTo(normalised));
    return noContent;
  }

  async function reset(exchange: Exchange) {
    const address = throttledAs(addressOf(exchange));
    const { token, newPassword } = await readJson(exchange, Reset);
    await count(address, [[resetsOfAddress, address]]);
    // Nothing is hashed for a token that is nobody's.
    const owner = isResetToken(token)
      ? await strangers.ask([address, 'reset'], () => ownerOfReset(sql, token, now()))
      : null;
    if (owner === null) throw wrongToken();
    const passwordHash = await passwords.hash(newPassword, [address, owner]);
    if (!(await applyReset(sqlOf(owner), token, passwordHash, now()))) throw wrongToken();
    return noContent;
  }

  const fromHere = (serve: typeof request) => (exchange: Exchange) => {
    if (isCrossSite(exchange, baseUrl)) throw new Failure('crossSite');
    return serve(exchange);
  };
  return [
    { method: 'POST', path: '/web/auth/reset-request', operation: requestOperation, handle: fromHere(request) },
    { method: 'POST', path: '/web/auth/reset', operation: resetOperation, handle: fromHere(reset) },
  ];
}

function wrongToken(): Failure {
  return new Failure('badRequest', 'token: is unknown, used or expired');
}

function textWith(link: string): string {
  return `Somebody, you perhaps, has asked for another password of your account.

Set it here, within ${RESET_MINUTES} minutes:
${link}

If it was not you, there is nothing to do: your password stays as it is.
`;
}

const requestOperation: Operation = {
  summary: 'Asks for a link that sets another password',
  description: `It is sent to the address, if there is such an account, and is good once and for ${RESET_MINUTES} minutes. The answer is the same in any case.`,
  tag: 'auth',
  who: 'anybody',
  requestBody: jsonBody(Request),
  responses: { 204: { description: 'Asked for.' } },
  errors: [
    ...(['badRequest', 'mailOff', 'crossSite', 'bodyTooLarge', 'jsonExpected'] as const),
    ...(['tooManyAttempts', 'unavailable'] as const),
  ],
};

const resetOperation: Operation = {
  summary: 'Sets another password by the token of a link',
  description: 'All sessions of the account end. Its keys and its second factor stay.',
  tag: 'auth',
  who: 'anybody',
  requestBody: jsonBody(Reset),
  responses: { 204: { description: 'Set: sign in with it.' } },
  errors: [
    ...(['badRequest', 'crossSite', 'bodyTooLarge', 'jsonExpected'] as const),
    ...(['tooManyAttempts', 'unavailable'] as const),
  ],
};
