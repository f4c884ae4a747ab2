// The routes that anybody may ask for: signing in and out, refreshing, registering, and the public keys.
import { performance } from 'node:perf_hooks';
import { z } from 'zod';
import type { Plans } from '../config/plans.js';
import { Failure } from '../errors.js';
import type { GuardedOperation } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, noContent, readJson } from '../http/json.js';
import { jsonAnswer, jsonBody } from '../http/openapi.js';
import type { Route } from '../http/router.js';
import type { Reply } from '../http/wire.js';
import type { SqlOf } from '../store/postgres.js';
import { fromHere, REFRESH_COOKIE, readCookies, signedInCookies, signedOutCookies, tokenOf } from './authenticate.js';
import { endSession, isToken, ownerOfToken, refreshSession, type SignInClient } from './sessions.js';
import type { SignedIn, SignIn } from './sign-in.js';
import { type AddressOf, createRemembered, STRANGERS, type Strangers, throttledAs } from './throttle.js';
import { ACCESS_TOKEN_SECONDS, Jwks, type Tokens } from './tokens.js';
import { EmailField, NameField, NewPasswordField, PasswordField, UserView, userView } from './users.js';

interface SignInRouteParts {
  readonly sqlOf: SqlOf;
  readonly strangers: Strangers;
  readonly signIn: SignIn;
  readonly tokens: Tokens;
  readonly plans: Plans;
  readonly registration: 'open' | 'closed';
  readonly passwordMail: boolean;
  readonly baseUrl: string | null;
  readonly addressOf: AddressOf;
  readonly now: () => number;
  /** A used refresh token was shown again: by a thief, or by the user whose token was stolen. */
  readonly onReuse: (session: { readonly userId: string; readonly sessionId: string }) => void;
}

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
  const unknown = createRemembered<object>(now);
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

  /** No question where it can't be anybody's, and one in the sender's turn where it may be. */
  async function ownerOf(token: string, address: string): ReturnType<typeof ownerOfToken> {
    if (!isToken(token) || unknown.get(token) !== null) return null;
    const owner = await strangers.ask([address, 'refresh'], () => ownerOfToken(sqlOf(STRANGERS), token));
    if (owner === null) unknown.set(token, {}, now() + UNKNOWN_MS);
    return owner;
  }

  async function refresh(exchange: Exchange): Promise<Reply> {
    const arrivedAt = performance.now();
    const address = throttledAs(addressOf(exchange));
    const [token, ...more] = readCookies(exchange.headers.get('cookie'), REFRESH_COOKIE);
    if (token === undefined || more.length > 0) throw new Failure('refreshInvalid');
    const owner = await ownerOf(token, address);
    if (owner === null) return await strangers.refuse(address, new Failure('refreshInvalid'));
    const result = await refreshSession(sqlOf(owner.userId), token, now(), arrivedAt);
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

function signedInResponse(description: string): Readonly<Record<string, unknown>> {
  return jsonAnswer(`${description} Sets the cookies sluice_access and sluice_refresh.`, SignedInAnswer);
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
    'one token that are under way at the same time one succeeds, the others are refused, and the session lives.',
  tag: 'auth',
  responses: { 200: signedInResponse('Refreshed.') },
  errors: ['refreshInvalid'],
};

const logoutOperation: GuardedOperation = {
  summary: 'Signs out: ends the session of the tokens sent',
  tag: 'auth',
  responses: { 204: { description: 'Signed out; also when nobody was signed in. Clears both cookies.' } },
};

const jwksOperation: GuardedOperation = {
  summary: 'The public keys of access tokens (RFC 7517)',
  tag: 'auth',
  responses: { 200: jsonAnswer('Keys in use, and the next one.', Jwks) },
};
