// Accounts: one row per user, one account per e-mail address whatever its case; the fields of JSON bodies about people; the first account, which is
// made once on an empty store, from BOOTSTRAP_* or with random values; and passwords, as Argon2id in the PHC string form, a bounded number of them at one time, in turn.
import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { hash, verify } from '@node-rs/argon2';
import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import type { Bootstrap } from '../config/config.js';
import { type Allowance, limitOf, type Plans } from '../config/plans.js';
import { codeOf } from '../error-text.js';
import { Failure } from '../errors.js';
import type { Caller } from '../http/caller.js';
import type { Fragment, Queries, Sql } from '../store/postgres.js';
import type { Who } from '../waiting/turns.js';
import { oneAtATime, within } from '../waiting/within.js';
import { WireTime, wireTime } from '../wire-text.js';
import { createKey } from './keys.js';
import { type Attempt, rules, type Throttle, turnsWithin } from './throttle.js';

interface NewUser {
  readonly email: string;
  readonly name: string;
  /** As hashPassword makes it; null: no sign-in with a password. */
  readonly passwordHash: string | null;
  readonly plan: string;
  /** Default: user. */
  readonly role?: Role;
  /** False when the address is only what its owner typed; default true. */
  readonly emailVouched?: boolean;
}

type UserCreation = { readonly outcome: 'created'; readonly userId: string } | { readonly outcome: 'emailTaken' };

/** The columns of `users` that its owner sees. */
export interface UserRow {
  readonly id: string;
  readonly email: string;
  readonly name: string;
  readonly plan: string;
  readonly role: Role;
  readonly own_limit: number | null;
  readonly suspended_at: Date | null;
  readonly creation_date: Date;
}

export const Role = z.enum(['user', 'operator']);
export type Role = z.infer<typeof Role>;

export const UserView = z.object({
  id: z.uuid(),
  email: z.string(),
  name: z.string(),
  plan: z.string(),
  hourlyLimit: z.int(),
  role: Role.describe('operator: may see and change all accounts, under /web/admin'),
  creationDate: WireTime,
});
export type UserView = z.infer<typeof UserView>;

const UNIQUE_VIOLATION = '23505';

export async function createUser(sql: Queries, user: NewUser): Promise<UserCreation> {
  const userId = uuidv7();
  try {
    await sql`
      INSERT INTO users (id, email, name, password_hash, plan, role, email_vouched)
      VALUES (${userId}, ${user.email}, ${user.name}, ${user.passwordHash}, ${user.plan}, ${user.role ?? 'user'}, ${user.emailVouched ?? true})`;
  } catch (error) {
    if (codeOf(error) === UNIQUE_VIOLATION) return { outcome: 'emailTaken' };
    throw error;
  }
  return { outcome: 'created', userId };
}

export async function hasUsers(sql: Queries): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`SELECT EXISTS (SELECT FROM users) AS found`;
  return row?.found === true;
}

export const userColumns = (sql: Queries): Fragment =>
  sql`id, email, name, plan, role, own_limit, suspended_at, creation_date`;

export async function findUser(sql: Queries, userId: string): Promise<UserRow | null> {
  const [row] = await sql<UserRow[]>`SELECT ${userColumns(sql)} FROM users WHERE id = ${userId}`;
  return row ?? null;
}

export async function findUserByEmail(sql: Queries, email: string): Promise<UserRow | null> {
  const [row] = await sql<UserRow[]>`
    SELECT ${userColumns(sql)} FROM users WHERE lower(email) = ${normaliseEmail(email)}`;
  return row ?? null;
}

/** By address, with how many live keys each has. */
export async function listUsers(sql: Queries): Promise<(UserRow & { readonly keys: number })[]> {
  return await sql<(UserRow & { keys: number })[]>`
    SELECT ${userColumns(sql)},
      (SELECT count(*)::int FROM api_keys k WHERE k.user_id = u.id AND k.revoked_at IS NULL) AS keys
    FROM users u ORDER BY lower(email)`;
}

export function allowanceOf({ plan, own_limit, suspended_at }: AllowanceColumns): Allowance {
  return { plan, ownLimit: own_limit, isSuspended: suspended_at !== null };
}

type AllowanceColumns = Pick<UserRow, 'plan' | 'own_limit' | 'suspended_at'>;

/** Scans per hour, as Postgres says now; null: there is no such user. */
export async function limitOfUser(sql: Queries, plans: Plans, userId: string): Promise<number | null> {
  const [row] = await sql<AllowanceColumns[]>`SELECT plan, own_limit, suspended_at FROM users WHERE id = ${userId}`;
  return row === undefined ? null : limitOf(plans, allowanceOf(row));
}

/** Null leaves a field as it is. */
interface UserChange {
  readonly name: string | null;
  readonly email: string | null;
  readonly passwordHash: string | null;
  /** The stored hash that the current password was verified against; null: none was asked for. */
  readonly verifiedHash: string | null;
}

type UserChangeResult =
  | { readonly outcome: 'changed'; readonly user: UserRow }
  | { readonly outcome: 'emailTaken' }
  /** The password was changed since it was verified, or the account is gone. */
  | { readonly outcome: 'notAsVerified' };

/** All of it or nothing; `onNewPassword` is run in the same transaction. */
export async function changeUser(
  sql: Sql,
  userId: string,
  { name, email, passwordHash, verifiedHash }: UserChange,
  onNewPassword: (tx: Queries) => Promise<void>,
): Promise<UserChangeResult> {
  const address = email === null ? null : normaliseEmail(email);
  try {
    // Whatever the database's default is: a snapshot would fail on a row that a sign-in has just locked.
    return await sql.transaction('readCommitted', async (tx): Promise<UserChangeResult> => {
      const [user] = await tx<UserRow[]>`
        UPDATE users SET name = COALESCE(${name}, name), email = COALESCE(${address}, email),
          password_hash = COALESCE(${passwordHash}, password_hash)
        WHERE id = ${userId} AND (${verifiedHash}::text IS NULL OR password_hash = ${verifiedHash})
        RETURNING ${userColumns(tx)}`;
      if (user === undefined) return { outcome: 'notAsVerified' };
      // A link that was sent to the address before, or for the password before, is none any more.
      if (passwordHash !== null || address !== null) await tx`DELETE FROM password_resets WHERE user_id = ${userId}`;
      if (passwordHash !== null) await onNewPassword(tx);
      return { outcome: 'changed', user };
    });
  } catch (error) {
    if (codeOf(error) === UNIQUE_VIOLATION) return { outcome: 'emailTaken' };
    throw error;
  }
}

export function userView(user: UserRow, plans: Plans): UserView {
  const { id, email, name, plan, role, creation_date: created } = user;
  return {
    id,
    email,
    name,
    plan,
    hourlyLimit: limitOf(plans, allowanceOf(user)),
    role,
    creationDate: wireTime(created),
  };
}

/** One account per address: what is compared, and what is stored of a new one. */
export const normaliseEmail = (email: string): string => email.trim().toLowerCase();

/** RFC 5321 section 4.5.3.1.3, without the angle brackets. */
const EMAIL_CHARACTERS = 254;
const NAME_CHARACTERS = 100;
/** 128 characters of a normalised password have come from no more than this, whatever they are composed of. */
const PASSWORD_CHARACTERS = 1024;

export const EmailField = z
  .string()
  .trim()
  .max(EMAIL_CHARACTERS, `must have at most ${EMAIL_CHARACTERS} characters`)
  .pipe(z.email('must be an e-mail address'));

/** Counted as people and Postgres count. Postgres stores no NUL and no half of a pair, and no name has control characters. */
export const NameField = z
  .string()
  .trim()
  .refine((name) => [...name].length <= NAME_CHARACTERS, `must have at most ${NAME_CHARACTERS} characters`)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'must not have control characters')
  .meta({ maxLength: NAME_CHARACTERS });

/** One that says something. */
export const SomeNameField = NameField.min(1, 'must not be empty').meta({ maxLength: NAME_CHARACTERS });

/** One that is compared: how long it must be says nothing about whether it is right. */
export const PasswordField = z
  .string()
  .min(1, 'must not be empty')
  .max(PASSWORD_CHARACTERS, `must have at most ${PASSWORD_CHARACTERS} characters`);

/** One that is set. */
export const NewPasswordField = PasswordField.superRefine((password, context) => {
  const problem = whyNotPassword(password);
  if (problem !== null) context.addIssue(problem);
}).meta({ description: '12 to 128 characters' });

/**
 * A removed account is served for so long. What counts against its limit asks the ledger each time, so that a suspension, another plan and another
 * limit hold at once on every node.
 */
const FRESH_MS = 1_000;
/** Longer than this nobody waits for Postgres whose account was found before: what it said last is taken. */
const REFRESH_MS = 250;

export function createNamedAccount(sql: Queries, email: string) {
  let known: UserRow | null = null;
  let freshUntilMs = Number.NEGATIVE_INFINITY;

  const look = oneAtATime(async () => {
    known = await findUserByEmail(sql, email);
    freshUntilMs = performance.now() + FRESH_MS;
    return known;
  });

  return {
    /** As it was found last; null: nobody has asked, or there is none. */
    known: () => known,
    /** Null: there is none of that address. Throws Failure('unavailable') when Postgres never said, and doesn't now. */
    async find(): Promise<UserRow | null> {
      if (performance.now() < freshUntilMs) return known;
      const found = look();
      if (known === null) return await found;
      try {
        return await within(found, REFRESH_MS);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        freshUntilMs = performance.now() + FRESH_MS;
        return known;
      }
    },
  };
}

export type BootstrapAccount = NonNullable<Awaited<ReturnType<typeof bootstrap>>>;

/** A lock of its own: the one of the migrations is held while they run. */
const BOOTSTRAP_LOCK = 5_749_281_602;
const DEFAULT_EMAIL = 'admin@sluice.local';
/** 24 characters of base64url. */
const PASSWORD_BYTES = 18;

/**
 * Makes the first account and returns it, or null when there are accounts. On a real database (`isEmbedded` false) it
 * makes one only if BOOTSTRAP_EMAIL or BOOTSTRAP_API_KEY is set: credentials nobody asked for would be a way in.
 */
export async function bootstrap(sql: Sql, settings: Bootstrap, { isEmbedded }: { readonly isEmbedded: boolean }) {
  const wanted = isEmbedded || settings.email !== null || settings.apiKey !== null;
  if (!wanted || (await hasUsers(sql))) return null;
  const password = settings.password ?? randomBytes(PASSWORD_BYTES).toString('base64url');
  const passwordHash = await hashPassword(password);
  // Read committed whatever the database's default is: a snapshot from before the lock would not show the other's account.
  return await sql.transaction('readCommitted', async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`;
    // Asked again under the lock: another process may have been first.
    if (await hasUsers(tx)) return null;
    const { email, apiKey } = await createAccount(tx, settings, passwordHash);
    return {
      email,
      /** Null when the operator set it and knows it. */
      password: settings.password === null ? password : null,
      apiKey,
      /** False when the operator set it: then it needn't be printed. */
      apiKeyIsRandom: settings.apiKey === null,
      plan: settings.plan,
    };
  });
}

async function createAccount(
  sql: Queries,
  settings: Bootstrap,
  passwordHash: string,
): Promise<{ email: string; apiKey: string }> {
  const email = settings.email ?? DEFAULT_EMAIL;
  const user = await createUser(sql, {
    email,
    name: 'Administrator',
    passwordHash,
    plan: settings.plan,
    role: 'operator',
  });
  if (user.outcome !== 'created') throw new Error('The first account met another one');
  const given = settings.apiKey === null ? {} : { value: settings.apiKey };
  const key = await createKey(sql, { userId: user.userId, name: 'First key', ...given });
  return { email, apiKey: key.value };
}

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

const turns = turnsWithin(
  { running: CONCURRENT_MAX, runningEach: 1, waiting: WAITING_MAX, waitingEach: WAITING_EACH_MAX, waitMs: WAIT_MS },
  'passwordsBusy',
);

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

export function whyNotPassword(password: string): string | null {
  const characters = [...normalise(password)].length;
  return characters < PASSWORD_MIN_CHARACTERS || characters > PASSWORD_MAX_CHARACTERS
    ? `must have ${PASSWORD_MIN_CHARACTERS} to ${PASSWORD_MAX_CHARACTERS} characters`
    : null;
}

/** NIST SP 800-63B: one password whatever way a keyboard composes its characters. */
const normalise = (password: string): string => password.normalize('NFKC');

/** Returns the hash that it was verified against. Throws Failure `badRequest`, `tooManyAttempts` or `unavailable`. */
export type VerifyCurrent = (sql: Sql, caller: Caller, currentPassword: string) => Promise<string>;

export function createVerifyCurrent(throttle: Throttle): VerifyCurrent {
  return async (sql, { userId, sessionId }, currentPassword) => {
    const guess: Attempt = [rules.passwordsOfSession, userId, sessionId ?? ''];
    await throttle.require(sql, [guess, [rules.passwordsOfAccount, userId]]);
    const stored = await passwordHashOf(sql, userId);
    if (stored === null) throw new Failure('badRequest', 'currentPassword: this account has no password');
    if (!(await verifyPassword(currentPassword, stored, [userId]))) throw wrongPassword();
    await throttle.giveBack(sql, [guess]);
    return stored;
  };
}

export const wrongPassword = (): Failure => new Failure('badRequest', 'currentPassword: is wrong');

/** Null: no such user, or one who can't sign in with a password. */
export async function passwordHashOf(sql: Sql, userId: string): Promise<string | null> {
  const [row] = await sql<{ password_hash: string | null }[]>`SELECT password_hash FROM users WHERE id = ${userId}`;
  return row?.password_hash ?? null;
}
