// Signing in and registering: throttled before a password is looked at, and silent about which accounts there are.
import { randomBytes } from 'node:crypto';
import { Failure } from '../errors.js';
import type { Sql } from '../store/postgres.js';
import { throttledAs } from './client-address.js';
import { type Client, type StartedSession, startSession } from './sessions.js';
import { createSignInThrottle } from './sign-in-throttle.js';
import { createUser, normaliseEmail, type UserRow } from './users.js';

export interface Credentials {
  readonly email: string;
  readonly password: string;
}

export interface SignedIn extends StartedSession {
  readonly user: UserRow;
}

/** As passwords.ts has them; a test counts the calls. */
export interface PasswordWork {
  hash(password: string): Promise<string>;
  verify(password: string, stored: string): Promise<boolean>;
}

export interface SignIn {
  /** Throws Failure `credentialsInvalid`, `tooManyAttempts` or `unavailable`. */
  login(credentials: Credentials, client: Client): Promise<SignedIn>;
  /** Makes an account and signs it in. Throws Failure `registrationClosed`, `conflict`, `tooManyAttempts` or `unavailable`. */
  register(account: Credentials & { readonly name: string }, client: Client): Promise<SignedIn>;
}

export interface SignInOptions {
  readonly sql: Sql;
  /** Of new accounts. */
  readonly plan: string;
  readonly registration: 'open' | 'closed';
  readonly passwords: PasswordWork;
  readonly now: () => number;
}

const DECOY_BYTES = 32;

export async function createSignIn({ sql, plan, registration, passwords, now }: SignInOptions): Promise<SignIn> {
  const throttle = createSignInThrottle(sql, now);
  // Verified in place of the hash that an unknown account doesn't have: of the same costs, and nobody's password.
  const decoy = await passwords.hash(randomBytes(DECOY_BYTES).toString('base64url'));

  return {
    async login(credentials, client) {
      const email = normaliseEmail(credentials.email);
      const giveBack = await throttle.signIn(email, throttledAs(client.ipAddress));
      const [row] = await sql<(UserRow & { password_hash: string | null })[]>`
        SELECT id, email, name, plan, creation_date, password_hash FROM users WHERE lower(email) = ${email}`;
      const passwordHash = row?.password_hash ?? null;
      const isRight = await passwords.verify(credentials.password, passwordHash ?? decoy);
      if (row === undefined || passwordHash === null || !isRight) throw new Failure('credentialsInvalid');
      const { password_hash: _, ...user } = row;
      const session = await startSession(sql, { userId: user.id, passwordHash }, client, now());
      if (session === null) throw new Failure('credentialsInvalid');
      await giveBack();
      return { ...session, user };
    },

    async register(account, client) {
      if (registration === 'closed') throw new Failure('registrationClosed');
      const email = normaliseEmail(account.email);
      await throttle.registration(email, throttledAs(client.ipAddress));
      const passwordHash = await passwords.hash(account.password);
      const created = await createUser(sql, {
        email,
        name: account.name,
        passwordHash,
        plan,
        emailVouched: false,
      });
      if (created.outcome === 'emailTaken') throw new Failure('conflict', 'This e-mail address has an account');
      const { userId } = created;
      const session = await startSession(sql, { userId, passwordHash }, client, now());
      const [user] = await sql<UserRow[]>`
        SELECT id, email, name, plan, creation_date FROM users WHERE id = ${userId}`;
      if (session === null || user === undefined) throw new Failure('conflict', 'The account was changed meanwhile');
      return { ...session, user };
    },
  };
}
