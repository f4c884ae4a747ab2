// The routes of what protects an account: its second factor, and its end. Each asks for the password again.
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { Caller, CallerRoute } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, noContent, readJson } from '../http/json.js';
import { jsonAnswer, jsonBody, type Operation } from '../http/openapi.js';
import type { SqlOf } from '../store/postgres.js';
import type { VerifyCurrent } from './current-password.js';
import { type Attempt, codesOfAccount, type Throttle } from './throttle.js';
import { acceptCode, beginTwoFactor, confirmTwoFactor, endTwoFactor } from './two-factor.js';
import { findUser, PasswordField } from './users.js';

export interface ProtectionRouteParts {
  readonly sqlOf: SqlOf;
  readonly throttle: Throttle;
  readonly verifyCurrent: VerifyCurrent;
  /** Deletes the account of its owner, with all that it has. Throws Failure `conflict` where it can't go. */
  readonly deleteAccount: DeleteOwn;
  readonly addressOf: (exchange: Exchange) => string;
  readonly now: () => number;
}

export type DeleteOwn = (owner: {
  readonly userId: string;
  readonly email: string;
  readonly address: string;
}) => Promise<void>;

const PATH = '/web/users/me';
/** Six digits, or a recovery code. */
const CodeField = z.string().min(1, 'must not be empty').max(64, 'is too long');
const Password = z.strictObject({ currentPassword: PasswordField }).meta({ id: 'CurrentPassword' });
const Code = z.strictObject({ code: CodeField }).meta({ id: 'TwoFactorCode' });
const PasswordAndCode = z
  .strictObject({ currentPassword: PasswordField, code: CodeField })
  .meta({ id: 'TwoFactorRemoval' });

const Enrolment = z
  .object({
    secret: z.string().describe('In base32, to be typed'),
    uri: z.string().describe('`otpauth:`, for a picture that a phone reads'),
  })
  .meta({ id: 'TwoFactorSecret' });
const Recovery = z
  .object({ recoveryCodes: z.array(z.string()).describe('Each good once, shown this once') })
  .meta({ id: 'RecoveryCodes' });

export function createProtectionRoutes(parts: ProtectionRouteParts): CallerRoute[] {
  return [...createTwoFactorRoutes(parts), createDeletionRoute(parts)];
}

function createTwoFactorRoutes(parts: ProtectionRouteParts): CallerRoute[] {
  const { sqlOf, throttle, verifyCurrent, now } = parts;
  return [
    {
      method: 'POST',
      path: `${PATH}/two-factor`,
      operation: beginOperation,
      async handle(caller, exchange) {
        const user = await provenUser(parts, caller, exchange);
        if (caller.twoFactor) throw new Failure('conflict', 'The second factor is on already');
        return jsonReply(200, await beginTwoFactor(sqlOf(caller.userId), user));
      },
    },
    {
      method: 'POST',
      path: `${PATH}/two-factor/confirmation`,
      operation: confirmOperation,
      async handle(caller, exchange) {
        const { code } = await readJson(exchange, Code);
        const sql = sqlOf(caller.userId);
        await throttle.require(sql, [[codesOfAccount, caller.userId]]);
        const confirmed = await confirmTwoFactor(sql, caller, code, now());
        switch (confirmed.outcome) {
          case 'notBegun':
            throw new Failure('conflict', 'No second factor was asked for');
          case 'codeWrong':
            throw wrongCode();
          case 'on':
            return jsonReply(200, { recoveryCodes: confirmed.recoveryCodes });
        }
      },
    },
    {
      method: 'POST',
      path: `${PATH}/two-factor/removal`,
      operation: removeOperation,
      async handle(caller, exchange) {
        const { currentPassword, code } = await readJson(exchange, PasswordAndCode);
        const sql = sqlOf(caller.userId);
        await verifyCurrent(sql, caller, currentPassword);
        const guess: Attempt = [codesOfAccount, caller.userId];
        await throttle.require(sql, [guess]);
        if (!(await acceptCode(sql, caller.userId, code, now()))) throw wrongCode();
        await endTwoFactor(sql, caller.userId);
        await throttle.giveBack(sql, [guess]);
        return noContent;
      },
    },
  ];
}

function createDeletionRoute(parts: ProtectionRouteParts): CallerRoute {
  return {
    method: 'POST',
    path: `${PATH}/deletion`,
    operation: deleteOperation,
    async handle(caller, exchange) {
      const user = await provenUser(parts, caller, exchange);
      if (user.role === 'operator') throw new Failure('conflict', 'An operator gives the role up first');
      await parts.deleteAccount({ userId: user.id, email: user.email, address: parts.addressOf(exchange) });
      return noContent;
    },
  };
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

function wrongCode(): Failure {
  return new Failure('badRequest', 'code: is wrong, or was used');
}

const errors = [
  ...(['tokenMissing', 'tokenInvalid', 'tokenExpired', 'crossSite', 'internal', 'unavailable'] as const),
  ...(['badRequest', 'bodyTooLarge', 'uploadTooSlow', 'jsonExpected', 'tooManyAttempts'] as const),
];
const common = { tag: 'users', who: 'user', errors } as const;

const beginOperation: Operation = {
  ...common,
  summary: 'Begins a second factor: a secret for a phone',
  description: 'It counts when a code of it was confirmed. Asked for again there is another secret.',
  requestBody: jsonBody(Password),
  responses: { 200: jsonAnswer('The secret.', Enrolment) },
  errors: [...errors, 'conflict'],
};

const confirmOperation: Operation = {
  ...common,
  summary: 'Turns the second factor on, by a code of it',
  description: 'From here on signing in takes a code or a recovery code. Your other sessions end.',
  requestBody: jsonBody(Code),
  responses: { 200: jsonAnswer('It is on.', Recovery) },
  errors: [...errors, 'conflict'],
};

const removeOperation: Operation = {
  ...common,
  summary: 'Turns the second factor off',
  requestBody: jsonBody(PasswordAndCode),
  responses: { 204: { description: 'It is off.' } },
};

const deleteOperation: Operation = {
  ...common,
  summary: 'Deletes your account with its keys, sessions and scans, for good',
  description:
    'Its keys are refused from here on, on every node; its scans are gone within minutes. An account with a subscription at Stripe is a 409, and so is an ' +
    "operator's.",
  requestBody: jsonBody(Password),
  responses: { 204: { description: 'Deleted.' } },
  errors: [...errors, 'conflict'],
};
