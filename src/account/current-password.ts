// Who changes what protects an account says its password again: checked, throttled by session and by account.
import { Failure } from '../errors.js';
import type { Caller } from '../http/caller.js';
import type { Sql } from '../store/postgres.js';
import type { PasswordWork } from './sign-in.js';
import { type Attempt, passwordsOfAccount, passwordsOfSession, type Throttle } from './throttle.js';
import { passwordHashOf } from './users.js';

export interface CurrentPasswordParts {
  readonly passwords: Pick<PasswordWork, 'verify'>;
  readonly throttle: Throttle;
}

/** Returns the hash that it was verified against. Throws Failure `badRequest`, `tooManyAttempts` or `unavailable`. */
export type VerifyCurrent = (sql: Sql, caller: Caller, currentPassword: string) => Promise<string>;

export function createVerifyCurrent({ passwords, throttle }: CurrentPasswordParts): VerifyCurrent {
  return async (sql, { userId, sessionId }, currentPassword) => {
    const guess: Attempt = [passwordsOfSession, userId, sessionId ?? ''];
    await throttle.require(sql, [guess, [passwordsOfAccount, userId]]);
    const stored = await passwordHashOf(sql, userId);
    if (stored === null) throw new Failure('badRequest', 'currentPassword: this account has no password');
    if (!(await passwords.verify(currentPassword, stored, [userId]))) throw wrongPassword();
    await throttle.giveBack(sql, [guess]);
    return stored;
  };
}

export function wrongPassword(): Failure {
  return new Failure('badRequest', 'currentPassword: is wrong');
}
