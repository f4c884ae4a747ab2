// Signing in and registering: throttled before a password is looked at, and silent about which accounts there are.
import { randomBytes } from 'node:crypto';
import { Failure } from '../errors.js';
import { recentTable } from '../recent-table.js';
import type { Sql, SqlOf } from '../store/postgres.js';
import type { Who } from '../waiting/turns.js';
import { acceptCode } from './protection.js';
import { type SignInClient, type StartedSession, startSession } from './sessions.js';
import {
  type Attempt,
  codesOfAccount,
  registrationsOfAccount,
  registrationsOfAddress,
  STRANGERS,
  type Strangers,
  signInsOfAccount,
  signInsOfAddress,
  signInsOfPair,
  type Throttle,
  type Throttled,
  throttledAs,
  tooMany,
} from './throttle.js';
import { createUser, findUser, normaliseEmail, type PasswordWork, type UserRow, userColumns } from './users.js';

interface Credentials {
  readonly email: string;
  readonly password: string;
  /** Of the second factor. */
  readonly code?: string | undefined;
}

export interface SignedIn extends StartedSession {
  readonly user: UserRow;
}

interface SignInOptions {
  readonly sqlOf: SqlOf;
  readonly strangers: Strangers;
  readonly throttle: Throttle;
  /** Of new accounts. */
  readonly plan: string;
  readonly passwords: PasswordWork;
  readonly now: () => number;
}

const DECOY_BYTES = 32;

export type SignIn = Awaited<ReturnType<typeof createSignIn>>;

export async function createSignIn(options: SignInOptions) {
  const { sqlOf, strangers, throttle, plan, passwords, now } = options;
  const sql = sqlOf(STRANGERS);
  const homes = createHomes(options);
  // Verified in place of the hash that an unknown account doesn't have: of the same costs, and nobody's password.
  const decoy = await passwords.hash(randomBytes(DECOY_BYTES).toString('base64url'), ['service']);

  /** Without those attempts that count nobody where the account is at home; null: it isn't. */
  async function withoutRule(attempts: readonly Attempt[], { attempt }: Throttled, email: string, address: string) {
    const rest = attempts.filter((other) => other !== attempt);
    if (attempt[0] === signInsOfAddress) return homes.isKnown(email, address) ? rest : null;
    // A stranger who fails on purpose doesn't lock the owner out of where the owner is signed in.
    if (attempt[0] === signInsOfAccount) return (await homes.has(email, address)) ? rest : null;
    return null;
  }

  /** Counts a sign-in, whether or not there is such an account, by all rules or by none; returns what is to be given back. */
  async function takeSignIn(email: string, address: string): Promise<readonly Attempt[]> {
    let attempts = attemptsOf(email, address);
    for (;;) {
      const refusal = throttle.known(attempts) ?? (await ask(attempts, email, address));
      if (refusal === null) return attempts;
      const rest = await withoutRule(attempts, refusal, email, address);
      if (rest === null) return await strangers.refuse(address, tooMany(refusal));
      attempts = rest;
    }
  }

  function ask(attempts: readonly Attempt[], email: string, address: string): Promise<Throttled | null> {
    return strangers.ask([address, email], () => throttle.take(sql, attempts));
  }

  /** Who knows the password is told that a code is missing. Guesses of it are counted by the account alone: they may come from its home. */
  async function takeCode(
    own: Sql,
    userId: string,
    code: string | undefined,
    attempts: readonly Attempt[],
  ): Promise<readonly Attempt[]> {
    if (code === undefined) {
      await throttle.giveBack(own, attempts);
      throw new Failure('codeMissing');
    }
    const guess: Attempt = [codesOfAccount, userId];
    await throttle.require(own, [guess]);
    if (!(await acceptCode(own, userId, code, now()))) throw new Failure('codeInvalid');
    return [guess];
  }

  return {
    /** Throws Failure `credentialsInvalid`, `codeMissing`, `codeInvalid`, `accountSuspended`, `tooManyAttempts` or `unavailable`. */
    async login(credentials: Credentials, client: SignInClient): Promise<SignedIn> {
      const email = normaliseEmail(credentials.email);
      const address = throttledAs(client.ipAddress);
      const who: Who = [address, email];
      const attempts = await takeSignIn(email, address);
      const [row] = await strangers.ask(
        who,
        async () =>
          await sql<(UserRow & { password_hash: string | null; two_factor: boolean })[]>`
          SELECT ${userColumns(sql)}, password_hash,
            totp_secret IS NOT NULL AS two_factor
          FROM users WHERE lower(email) = ${email}`,
      );
      const passwordHash = row?.password_hash ?? null;
      const isRight = await passwords.verify(credentials.password, passwordHash ?? decoy, who);
      if (row === undefined || passwordHash === null || !isRight) throw new Failure('credentialsInvalid');
      // Only who knows the password learns of it.
      if (row.suspended_at !== null) throw new Failure('accountSuspended');
      const { password_hash: _, two_factor: twoFactor, ...user } = row;
      const own = sqlOf(user.id);
      const codes = twoFactor ? await takeCode(own, user.id, credentials.code, attempts) : [];
      const session = await startSession(own, { userId: user.id, passwordHash, twoFactor }, client, now());
      if (session === null) throw new Failure('credentialsInvalid');
      homes.add(email, address);
      await throttle.giveBack(own, [...attempts, ...codes]);
      return { ...session, user };
    },

    /** Makes an account and signs it in. Throws Failure `conflict`, `tooManyAttempts` or `unavailable`. */
    async register(account: Credentials & { readonly name: string }, client: SignInClient): Promise<SignedIn> {
      const email = normaliseEmail(account.email);
      const address = throttledAs(client.ipAddress);
      const who: Who = [address, email];
      // Before anything is hashed, and whether or not the account is there.
      const attempts: Attempt[] = [
        [registrationsOfAddress, address],
        [registrationsOfAccount, email],
      ];
      const refusal = throttle.known(attempts) ?? (await ask(attempts, email, address));
      if (refusal !== null) await strangers.refuse(address, tooMany(refusal));
      const passwordHash = await passwords.hash(account.password, who);
      const created = await strangers.ask(who, () =>
        createUser(sql, { email, name: account.name, passwordHash, plan, emailVouched: false }),
      );
      if (created.outcome === 'emailTaken') throw new Failure('conflict', 'This e-mail address has an account');
      const { userId } = created;
      const own = sqlOf(userId);
      const session = await startSession(own, { userId, passwordHash }, client, now());
      const user = await findUser(own, userId);
      if (session === null || user === null) throw new Failure('conflict', 'The account was changed meanwhile');
      return { ...session, user };
    },
  };
}

function attemptsOf(email: string, address: string): readonly Attempt[] {
  return [
    [signInsOfAddress, address],
    [signInsOfPair, email, address],
    [signInsOfAccount, email],
  ];
}

/** Pairs of an account and an address that are remembered, some 300 bytes each. */
const HOMES_MAX = 10_000;
const HOME_MS = 3_600_000;
const NO_HOME_MS = 5_000;

/** Where accounts are signed in, by their e-mail address. */
function createHomes({ sqlOf, strangers, now }: SignInOptions) {
  const sql = sqlOf(STRANGERS);
  const pairs = recentTable<{ readonly isHome: boolean; readonly untilMs: number }>(HOMES_MAX);
  const keyOf = (email: string, address: string): string => `${address} ${email}`;

  function find(email: string, address: string): boolean | null {
    const pair = pairs.get(keyOf(email, address));
    return pair !== undefined && now() < pair.untilMs ? pair.isHome : null;
  }

  function add(email: string, address: string, isHome = true): void {
    pairs.set(keyOf(email, address), { isHome, untilMs: now() + (isHome ? HOME_MS : NO_HOME_MS) });
  }

  return {
    add,
    /** Whether this process has seen the account sign in from there lately. */
    isKnown: (email: string, address: string): boolean => find(email, address) === true,
    /** Whether a session of the account was begun there. */
    async has(email: string, address: string): Promise<boolean> {
      const known = find(email, address);
      if (known !== null) return known;
      const rows = await strangers.ask(
        [address, email],
        async () =>
          await sql<{ ip_address: string }[]>`
          SELECT DISTINCT s.ip_address FROM sessions s JOIN users u ON u.id = s.user_id
          WHERE lower(u.email) = ${email} AND s.expires_at > ${new Date(now())}`,
      );
      const isHome = rows.some((row) => throttledAs(row.ip_address) === address);
      add(email, address, isHome);
      return isHome;
    },
  };
}
