// Signing in and registering: throttled before a password is looked at, and silent about which accounts there are.
import { randomBytes } from 'node:crypto';
import { Failure } from '../errors.js';
import type { Queries, Sql } from '../store/postgres.js';
import {
  giveAttemptBack,
  type Rule,
  registrationsOfAccount,
  registrationsOfAddress,
  signInsOfAccount,
  signInsOfAddress,
  signInsOfPair,
  takeAttempt,
} from './attempts.js';
import { throttledAs } from './client-address.js';
import { type Client, type StartedSession, startSession } from './sessions.js';
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
  // Verified in place of the hash that an unknown account doesn't have: of the same costs, and nobody's password.
  const decoy = await passwords.hash(randomBytes(DECOY_BYTES).toString('base64url'));

  async function take(rule: Rule, subject: readonly string[]): Promise<void> {
    const waitSeconds = await takeAttempt(sql, rule, subject, now());
    if (waitSeconds !== null) throw new Failure('tooManyAttempts', '', waitSeconds);
  }

  /** Counts a sign-in, whether or not there is such an account; returns what gives the attempts back. */
  async function takeSignIn(email: string, address: string): Promise<() => Promise<void>> {
    const counted: [Rule, readonly string[]][] = [];
    const giveBack = async (): Promise<void> => {
      for (const [rule, subject] of counted) await giveAttemptBack(sql, rule, subject);
    };
    try {
      for (const [rule, subject] of [
        [signInsOfAddress, [address]],
        [signInsOfPair, [email, address]],
      ] as const) {
        await take(rule, subject);
        counted.push([rule, subject]);
      }
      const waitSeconds = await takeAttempt(sql, signInsOfAccount, [email], now());
      if (waitSeconds === null) counted.push([signInsOfAccount, [email]]);
      // Whoever fails on purpose, from wherever, doesn't lock the owner out of where the owner is signed in.
      else if (!(await isSignedInFrom(sql, email, address, now())))
        throw new Failure('tooManyAttempts', '', waitSeconds);
    } catch (error) {
      // What is refused doesn't count, by any rule.
      if (error instanceof Failure) await giveBack();
      throw error;
    }
    return giveBack;
  }

  /** Before anything is hashed, and whether or not the account is there. */
  async function takeRegistration(email: string, address: string): Promise<void> {
    await take(registrationsOfAddress, [address]);
    try {
      await take(registrationsOfAccount, [email]);
    } catch (error) {
      // What is refused doesn't count, by any rule.
      if (error instanceof Failure) await giveAttemptBack(sql, registrationsOfAddress, [address]);
      throw error;
    }
  }

  return {
    async login(credentials, client) {
      const email = normaliseEmail(credentials.email);
      const giveBack = await takeSignIn(email, throttledAs(client.ipAddress));
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
      await takeRegistration(email, throttledAs(client.ipAddress));
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

async function isSignedInFrom(sql: Queries, email: string, address: string, nowMs: number): Promise<boolean> {
  const rows = await sql<{ ip_address: string }[]>`
    SELECT DISTINCT s.ip_address FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE lower(u.email) = ${email} AND s.expires_at > ${new Date(nowMs)}`;
  return rows.some((row) => throttledAs(row.ip_address) === address);
}
