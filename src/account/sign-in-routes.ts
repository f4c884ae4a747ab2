// What anybody may ask for: signing in and registering, throttled before a password is looked at, and silent about which accounts there are; signing
// out, refreshing, and the public keys.

import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { GuardedOperation } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, noContent, readJson } from '../http/json.js';
import { jsonAnswer, jsonBody } from '../http/openapi.js';
import type { Route } from '../http/router.js';
import type { Reply } from '../http/wire.js';
import { recentTable } from '../recent-table.js';
import type { Sql } from '../store/postgres.js';
import type { Who } from '../waiting/turns.js';
import { fromHere, REFRESH_COOKIE, readCookies, signedInCookies, signedOutCookies, tokenOf } from './authenticate.js';
import type { AccountParts } from './parts.js';
import { acceptCode } from './protection.js';
import {
  endSession,
  isRefreshKey,
  isToken,
  ownerOfToken,
  refreshSession,
  type SessionOf,
  type SignInClient,
  type StartedSession,
  startSession,
} from './sessions.js';
import { type Attempt, createRemembered, rules, STRANGERS, type Throttled, throttledAs, tooMany } from './throttle.js';
import { ACCESS_TOKEN_SECONDS, Jwks } from './tokens.js';
import {
  createUser,
  EmailField,
  findUser,
  NameField,
  NewPasswordField,
  normaliseEmail,
  PasswordField,
  type PasswordWork,
  type UserRow,
  UserView,
  userColumns,
  userView,
} from './users.js';

interface Credentials {
  readonly email: string;
  readonly password: string;
  /** Of the second factor. */
  readonly code?: string | undefined;
}

export interface SignedIn extends StartedSession {
  readonly user: UserRow;
}

interface SignInOptions extends Pick<AccountParts, 'sqlOf' | 'strangers' | 'throttle' | 'now'> {
  /** Of new accounts. */
  readonly plan: string;
  readonly passwords: PasswordWork;
}

const DECOY_BYTES = 32;

export type SignIn = Awaited<ReturnType<typeof createSignIn>>;

export async function createSignIn(options: SignInOptions) {
  const { sqlOf, strangers, throttle, plan, passwords, now } = options;
  const sql = sqlOf(STRANGERS);
  const homes = createHomes(options);
  const { take, takeSignIn, takeCode } = createGuesses(options, homes);
  // Verified in place of the hash that an unknown account doesn't have: of the same costs, and nobody's password.
  const decoy = await passwords.hash(randomBytes(DECOY_BYTES).toString('base64url'), ['service']);

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
        [rules.registrationsOfAddress, address],
        [rules.registrationsOfAccount, email],
      ];
      const refusal = throttle.known(attempts) ?? (await take(attempts, email, address));
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

/** What of a sign-in is counted, so that nobody can guess for long. */
function createGuesses({ sqlOf, strangers, throttle, now }: SignInOptions, homes: ReturnType<typeof createHomes>) {
  const sql = sqlOf(STRANGERS);

  /** Without those attempts that count nobody where the account is at home; null: it isn't. */
  async function withoutRule(attempts: readonly Attempt[], { attempt }: Throttled, email: string, address: string) {
    const rest = attempts.filter((other) => other !== attempt);
    if (attempt[0] === rules.signInsOfAddress) return homes.isKnown(email, address) ? rest : null;
    // A stranger who fails on purpose doesn't lock the owner out of where the owner is signed in.
    if (attempt[0] === rules.signInsOfAccount) return (await homes.has(email, address)) ? rest : null;
    return null;
  }

  /** Counts a sign-in, whether or not there is such an account, by all rules or by none; returns what is to be given back. */
  async function takeSignIn(email: string, address: string): Promise<readonly Attempt[]> {
    let attempts = attemptsOf(email, address);
    for (;;) {
      const refusal = throttle.known(attempts) ?? (await take(attempts, email, address));
      if (refusal === null) return attempts;
      const rest = await withoutRule(attempts, refusal, email, address);
      if (rest === null) return await strangers.refuse(address, tooMany(refusal));
      attempts = rest;
    }
  }

  function take(attempts: readonly Attempt[], email: string, address: string): Promise<Throttled | null> {
    return strangers.ask([address, email], () => throttle.take(sql, attempts));
  }

  /** Only who has the right password hears that a code is missing. Wrong codes count by account: a thief may guess from where the owner is signed in. */
  async function takeCode(own: Sql, userId: string, code: string | undefined, attempts: readonly Attempt[]) {
    if (code === undefined) {
      await throttle.giveBack(own, attempts);
      throw new Failure('codeMissing');
    }
    const guess: Attempt = [rules.codesOfAccount, userId];
    await throttle.require(own, [guess]);
    if (!(await acceptCode(own, userId, code, now()))) throw new Failure('codeInvalid');
    return [guess];
  }

  return { take, takeSignIn, takeCode };
}

function attemptsOf(email: string, address: string): readonly Attempt[] {
  return [
    [rules.signInsOfAddress, address],
    [rules.signInsOfPair, email, address],
    [rules.signInsOfAccount, email],
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

interface SignInRouteParts
  extends Pick<AccountParts, 'sqlOf' | 'strangers' | 'tokens' | 'plans' | 'baseUrl' | 'addressOf' | 'now'> {
  readonly signIn: SignIn;
  readonly registration: 'open' | 'closed';
  readonly passwordMail: boolean;
  /** A used refresh token was shown again: by a thief, or by the user whose token was stolen. */
  readonly onReuse: (session: SessionOf) => void;
}

const REFRESH_KEY_RULE = 'Idempotency-Key: must be 16 to 255 visible ASCII characters';
/** For so long it is remembered that a refresh token is nobody's. */
const UNKNOWN_MS = 60_000;
/** Ours, and what a neighbour of the domain may have put beside it. */
const LOGOUT_COOKIES_MAX = 2;

const Login = z
  .strictObject({
    email: EmailField,
    password: PasswordField,
    code: z.string().max(64, 'is too long').optional().describe('Of the second factor: six digits, or a recovery code'),
  })
  .meta({ id: 'SignIn' });
const Registration = z
  .strictObject({ email: EmailField, password: NewPasswordField, name: NameField.default('') })
  .meta({ id: 'NewUser' });

const RegistrationAnswer = z
  .object({
    registration: z.enum(['open', 'closed']),
    passwordMail: z.boolean().describe('Whether the server sends links to another password'),
  })
  .meta({ id: 'Registration' });

export function createSignInRoutes(parts: SignInRouteParts): Route[] {
  const { tokens, registration, passwordMail, baseUrl } = parts;
  const { login, register, refresh, logout } = createHandlers(parts);

  // Another site's page may not sign its visitor in or out either.
  return fromHere(baseUrl, [
    { name: 'POST /web/auth/register', operation: registerOperation, handle: register },
    { name: 'POST /web/auth/login', operation: loginOperation, handle: login },
    { name: 'POST /web/auth/refresh', operation: refreshOperation, handle: refresh },
    { name: 'POST /web/auth/logout', operation: logoutOperation, handle: logout },
    {
      name: 'GET /web/auth/registration',
      operation: registrationOperation,
      handle: () => jsonReply(200, { registration, passwordMail }),
    },
    { name: 'GET /.well-known/jwks.json', operation: jwksOperation, handle: () => jsonReply(200, tokens.jwks()) },
  ]);
}

type Handle = (exchange: Exchange) => Promise<Reply>;

function createHandlers(parts: SignInRouteParts): Record<'login' | 'register' | 'refresh' | 'logout', Handle> {
  const { sqlOf, strangers, signIn, tokens, plans, registration, baseUrl, addressOf, now, onReuse } = parts;
  const ownerOf = createOwners(parts);
  const cookies = { secure: baseUrl?.startsWith('https:') ?? false };

  function clientOf(exchange: Exchange): SignInClient {
    return { userAgent: exchange.headers.get('user-agent') ?? '', ipAddress: addressOf(exchange) };
  }

  async function signedIn(status: number, { user, sessionId, refreshToken }: SignedIn): Promise<Reply> {
    const accessToken = await tokens.mint({ userId: user.id, sessionId });
    const body: z.infer<typeof SignedInAnswer> = {
      accessToken,
      expiresIn: ACCESS_TOKEN_SECONDS,
      user: userView(user, plans),
    };
    return jsonReply(status, body, {
      'Set-Cookie': signedInCookies({ access: accessToken, refresh: refreshToken }, cookies),
    });
  }

  async function login(exchange: Exchange): Promise<Reply> {
    const client = clientOf(exchange);
    const credentials = await readJson(exchange, Login);
    return await signedIn(200, await signIn.login(credentials, client));
  }

  async function register(exchange: Exchange): Promise<Reply> {
    if (registration === 'closed') throw new Failure('registrationClosed');
    const client = clientOf(exchange);
    const account = await readJson(exchange, Registration);
    return await signedIn(201, await signIn.register(account, client));
  }

  async function refresh(exchange: Exchange): Promise<Reply> {
    const arrivedAt = performance.now();
    const address = throttledAs(addressOf(exchange));
    const key = exchange.headers.get('idempotency-key') ?? null;
    if (key !== null && !isRefreshKey(key)) throw new Failure('badRequest', REFRESH_KEY_RULE);
    const [token, ...more] = readCookies(exchange.headers.get('cookie'), REFRESH_COOKIE);
    if (token === undefined || more.length > 0) throw new Failure('refreshInvalid');
    const owner = await ownerOf(token, address);
    if (owner === null) return await strangers.refuse(address, new Failure('refreshInvalid'));
    const result = await refreshSession(sqlOf(owner.userId), token, { nowMs: now(), arrivedAt, key });
    if (result.outcome === 'reused') onReuse(result);
    // The cookies stay as they are: those of the request that won a race may be there already.
    if (result.outcome !== 'refreshed') throw new Failure('refreshInvalid');
    return await signedIn(200, result);
  }

  /** Ends the session that either token is of. A client without one, or with one that has ended, is signed out as well. */
  async function logout(exchange: Exchange): Promise<Reply> {
    const address = throttledAs(addressOf(exchange));
    const refreshTokens = readCookies(exchange.headers.get('cookie'), REFRESH_COOKIE);
    for (const token of refreshTokens.slice(0, LOGOUT_COOKIES_MAX)) {
      const owner = await ownerOf(token, address);
      if (owner !== null) await endSession(sqlOf(owner.userId), owner.userId, owner.sessionId);
    }
    const access = accessTokenOf(exchange);
    const verification = access === null ? null : await tokens.verify(access, [address]);
    if (verification?.outcome === 'own') {
      await endSession(sqlOf(verification.userId), verification.userId, verification.sessionId);
    }
    return { ...noContent, headers: { 'Set-Cookie': signedOutCookies(cookies) } };
  }

  return { login, register, refresh, logout };
}

/** Returns who says whose a refresh token is, which the address sends. */
function createOwners({ sqlOf, strangers, now }: Pick<SignInRouteParts, 'sqlOf' | 'strangers' | 'now'>) {
  const unknown = createRemembered<object>(now);
  /** No question where it can't be anybody's, and one in the sender's turn where it may be. */
  return async (token: string, address: string): ReturnType<typeof ownerOfToken> => {
    if (!isToken(token) || unknown.get(token) !== null) return null;
    const owner = await strangers.ask([address, 'refresh'], () => ownerOfToken(sqlOf(STRANGERS), token));
    if (owner === null) unknown.set(token, {}, now() + UNKNOWN_MS);
    return owner;
  };
}

/** Null where the request names no session: a logout without one is no error. */
function accessTokenOf(exchange: Exchange): string | null {
  try {
    return tokenOf(exchange).token;
  } catch (error) {
    if (error instanceof Failure) return null;
    throw error;
  }
}

const SignedInAnswer = z
  .object({
    accessToken: z.string(),
    expiresIn: z.int().describe('Seconds'),
    user: UserView,
  })
  .meta({ id: 'SignedIn' });

function cookieHeaders(what: string): Readonly<Record<string, object>> {
  const description = `Twice: ${what} of \`sluice_access\`, and of \`sluice_refresh\` with the path /web/auth.`;
  return { 'Set-Cookie': { description, schema: { type: 'string' } } };
}

function signedInResponse(description: string): Readonly<Record<string, unknown>> {
  const answer = jsonAnswer(`${description} Sets the cookies sluice_access and sluice_refresh.`, SignedInAnswer);
  return { ...answer, headers: cookieHeaders('the value') };
}

const loginOperation: GuardedOperation = {
  summary: 'Signs in',
  tag: 'auth',
  requestBody: jsonBody(Login),
  responses: { 200: signedInResponse('Signed in.') },
  errors: ['credentialsInvalid', 'codeMissing', 'codeInvalid', 'tooManyAttempts'],
};

const registerOperation: GuardedOperation = {
  summary: 'Makes an account and signs in; closed unless the operator opens it',
  tag: 'auth',
  requestBody: jsonBody(Registration),
  responses: { 201: signedInResponse('The account is made.') },
  errors: ['registrationClosed', 'conflict', 'tooManyAttempts'],
};

const registrationOperation: GuardedOperation = {
  summary: 'Whether anybody may make an account, and how a forgotten password is replaced',
  tag: 'auth',
  responses: { 200: jsonAnswer('As the operator has set it.', RegistrationAnswer) },
};

const refreshOperation: GuardedOperation = {
  summary: 'A new access token for the refresh token in the cookie sluice_refresh',
  description:
    'A refresh token works once and is replaced. One that was used before is refused and ends its session; of requests with ' +
    'one token that are under way at the same time one succeeds, the others are refused, and the session lives. The same request ' +
    'again, with the same `Idempotency-Key`, has the same refresh token for an hour, unless that was used.',
  tag: 'auth',
  parameters: [
    {
      name: 'Idempotency-Key',
      in: 'header',
      description:
        'Random, of your own making, and known to nobody else: with it an answer that was lost is asked for again.',
      schema: { type: 'string', pattern: '^[!-~]{16,255}$' },
    },
  ],
  responses: { 200: signedInResponse('Refreshed.') },
  errors: ['refreshInvalid', 'badRequest'],
};

const logoutOperation: GuardedOperation = {
  summary: 'Signs out: ends the session of the tokens sent',
  tag: 'auth',
  responses: {
    204: {
      description: 'Signed out; also when nobody was signed in. Clears both cookies.',
      headers: cookieHeaders('the end'),
    },
  },
};

const jwksOperation: GuardedOperation = {
  summary: 'The public keys of access tokens (RFC 7517)',
  tag: 'auth',
  responses: { 200: jsonAnswer('Keys in use, and the next one.', Jwks) },
};
