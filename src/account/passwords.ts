// Passwords: Argon2id in the PHC string form, which carries its own salt and costs; a bounded number of them at one time, in turn. Who changes what
// protects an account says the password again: that is throttled by session and by account.
import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import { Failure, Unavailable } from '../errors.js';
import type { Caller } from '../http/caller.js';
import type { Sql } from '../store/postgres.js';
import { Turns, type Who } from '../waiting/turns.js';
import { type Attempt, passwordsOfAccount, passwordsOfSession, type Throttle } from './throttle.js';

/** OWASP's first choice of Argon2id costs: 19 MiB, two passes, one lane; 20 to 40 ms of one thread outside JavaScript. */
const COSTS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
/** Of the four threads that Node has for such work, and that names and files need as well; and of the cores no more than half, for scans. */
const CONCURRENT_MAX = Math.max(1, Math.min(2, Math.floor(availableParallelism() / 2)));
/** Passwords that wait, two seconds' worth; the next one gets a 503. Of this process, for all requests together, as the threads are. */
const WAITING_MAX = 60;
const WAITING_EACH_MAX = 30;
const WAIT_MS = 5_000;

export const PASSWORD_MIN_CHARACTERS = 12;
export const PASSWORD_MAX_CHARACTERS = 128;

/** For what the operator does, and the service for itself. */
const SERVICE: Who = ['service'];

const busy = (): Error => new Unavailable('passwordsBusy');
const turns = new Turns({
  ...{ running: CONCURRENT_MAX, runningEach: 1, waiting: WAITING_MAX, waitingEach: WAITING_EACH_MAX, waitMs: WAIT_MS },
  ...{ full: busy, late: busy },
});

/** Throws Failure('unavailable') when too many wait. `who`: the account, or the address and the account that it names. */
export async function hashPassword(password: string, who: Who = SERVICE): Promise<string> {
  return await turns.run(who, () => hash(normalise(password), COSTS));
}

/** Throws Failure('unavailable') when too many wait. */
export async function verifyPassword(password: string, stored: string, who: Who = SERVICE): Promise<boolean> {
  return await turns.run(who, () => verify(stored, normalise(password)));
}

/** What works with them; a test counts the calls. */
export interface PasswordWork {
  readonly hash: typeof hashPassword;
  readonly verify: typeof verifyPassword;
}

/** What is wrong with a new password, or null. */
export function whyNotPassword(password: string): string | null {
  const characters = [...normalise(password)].length;
  return characters < PASSWORD_MIN_CHARACTERS || characters > PASSWORD_MAX_CHARACTERS
    ? `must have ${PASSWORD_MIN_CHARACTERS} to ${PASSWORD_MAX_CHARACTERS} characters`
    : null;
}

/** NIST SP 800-63B: one password whatever way a keyboard composes its characters. */
function normalise(password: string): string {
  return password.normalize('NFKC');
}

/** Returns the hash that it was verified against. Throws Failure `badRequest`, `tooManyAttempts` or `unavailable`. */
export type VerifyCurrent = (sql: Sql, caller: Caller, currentPassword: string) => Promise<string>;

export function createVerifyCurrent(throttle: Throttle): VerifyCurrent {
  return async (sql, { userId, sessionId }, currentPassword) => {
    const guess: Attempt = [passwordsOfSession, userId, sessionId ?? ''];
    await throttle.require(sql, [guess, [passwordsOfAccount, userId]]);
    const stored = await passwordHashOf(sql, userId);
    if (stored === null) throw new Failure('badRequest', 'currentPassword: this account has no password');
    if (!(await verifyPassword(currentPassword, stored, [userId]))) throw wrongPassword();
    await throttle.giveBack(sql, [guess]);
    return stored;
  };
}

export function wrongPassword(): Failure {
  return new Failure('badRequest', 'currentPassword: is wrong');
}

/** Null: no such user, or one who can't sign in with a password. */
export async function passwordHashOf(sql: Sql, userId: string): Promise<string | null> {
  const [row] = await sql<{ password_hash: string | null }[]>`SELECT password_hash FROM users WHERE id = ${userId}`;
  return row?.password_hash ?? null;
}
