// The routes of the signed-in user's own account.
import { z } from 'zod';
import type { Plans } from '../config/plans.js';
import { Failure } from '../errors.js';
import type { Caller, CallerRoute } from '../http/caller.js';
import { jsonReply, readJson } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, jsonBody } from '../http/schema.js';
import type { Queries, Sql } from '../store/postgres.js';
import { EmailField, NewPasswordField, PasswordField, SomeNameField } from './fields.js';
import { changeUser, findUser, passwordHashOf, UserView, userView } from './users.js';

export interface UserRouteParts {
  readonly sql: Sql;
  readonly plans: Plans;
  readonly passwords: {
    hash(password: string): Promise<string>;
    verify(password: string, stored: string): Promise<boolean>;
  };
  /** Counts a guess of the current password, or throws Failure('tooManyAttempts'); returns what takes it back. */
  readonly countGuess: (caller: Caller) => Promise<() => Promise<void>>;
  /** Ends the user's sessions but this one, in the transaction that changed the password. */
  readonly endOtherSessions: (sql: Queries, userId: string, exceptSessionId: string | null) => Promise<void>;
}

const PATH = '/web/users/me';

const Changes = z
  .strictObject({
    name: SomeNameField.optional(),
    email: EmailField.optional(),
    newPassword: NewPasswordField.optional(),
    currentPassword: PasswordField.optional(),
  })
  .superRefine(({ name, email, newPassword, currentPassword }, context) => {
    const isSecured = email !== undefined || newPassword !== undefined;
    if (!isSecured && name === undefined) context.addIssue('Send at least one of name, email and newPassword');
    if (isSecured && currentPassword === undefined) {
      context.addIssue({ code: 'custom', path: ['currentPassword'], message: 'email and newPassword need it' });
    }
  });

export function createUserRoutes(parts: UserRouteParts): CallerRoute[] {
  const { sql, plans, passwords, countGuess, endOtherSessions } = parts;

  /** The hash that the current password was verified against: the change is made only while it is still the one. */
  async function verified(caller: Caller, currentPassword: string): Promise<string> {
    const giveBack = await countGuess(caller);
    const stored = await passwordHashOf(sql, caller.userId);
    if (stored === null) throw new Failure('badRequest', 'currentPassword: this account has no password');
    if (!(await passwords.verify(currentPassword, stored))) throw wrongPassword();
    await giveBack();
    return stored;
  }

  return [
    {
      method: 'GET',
      path: PATH,
      operation: showOperation,
      async handle({ userId }) {
        const user = await findUser(sql, userId);
        if (user === null) throw new Failure('tokenInvalid');
        return jsonReply(200, userView(user, plans));
      },
    },
    {
      method: 'PUT',
      path: PATH,
      operation: changeOperation,
      async handle(caller, exchange) {
        const { name, email, newPassword, currentPassword } = await readJson(exchange, Changes);
        const isSecured = email !== undefined || newPassword !== undefined;
        const verifiedHash =
          isSecured && currentPassword !== undefined ? await verified(caller, currentPassword) : null;
        const passwordHash = newPassword === undefined ? null : await passwords.hash(newPassword);
        const change = { name: name ?? null, email: email ?? null, passwordHash, verifiedHash };
        const onNewPassword = (tx: Queries) => endOtherSessions(tx, caller.userId, caller.sessionId);
        const result = await changeUser(sql, caller.userId, change, onNewPassword);
        switch (result.outcome) {
          case 'emailTaken':
            throw new Failure('conflict', 'email: this address has an account');
          case 'notAsVerified':
            throw verifiedHash === null ? new Failure('tokenInvalid') : wrongPassword();
          case 'changed':
            return jsonReply(200, userView(result.user, plans));
        }
      },
    },
  ];
}

function wrongPassword(): Failure {
  return new Failure('badRequest', 'currentPassword: is wrong');
}

const authErrors = ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'internal', 'unavailable'] as const;

const showOperation: Operation = {
  summary: 'You',
  tag: 'users',
  who: 'user',
  responses: { 200: jsonAnswer('Your account.', UserView) },
  errors: authErrors,
};

const changeOperation: Operation = {
  summary: 'Changes your name, your e-mail address or your password',
  description:
    'What is left out stays. `email` and `newPassword` need `currentPassword`; a wrong one is a 400, and after ten of them in one ' +
    'session a 429 with Retry-After. A new password ends your other sessions.',
  tag: 'users',
  who: 'user',
  requestBody: jsonBody(Changes),
  responses: { 200: jsonAnswer('Your account as it is now.', UserView) },
  errors: [
    ...authErrors,
    ...(['badRequest', 'crossSite', 'conflict', 'bodyTooLarge', 'uploadTooSlow', 'jsonExpected'] as const),
    'tooManyAttempts',
  ],
};
