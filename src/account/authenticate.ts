// Who is signed in: a bearer token or the cookie in, the caller with a live session out, or the account of a trusted issuer's subject; the
// cookies, and what another site's page may not do.
import { Failure } from '../errors.js';
import {
  type Authenticate,
  type Caller,
  type GuardedOperation,
  isReading,
  type LikelyUser,
  withGuards,
} from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import type { Route } from '../http/router.js';
import type { Sql } from '../store/postgres.js';
import { parseUrl } from '../wire-text.js';
import type { AccountParts } from './parts.js';
import { findSession, REFRESH_TOKEN_MS, touchSession } from './sessions.js';
import { createRemembered, throttledAs, turnsWithin } from './throttle.js';
import { ACCESS_TOKEN_SECONDS } from './tokens.js';
import { createUser, normaliseEmail, type UserRow } from './users.js';

interface AuthenticateParts
  extends Pick<AccountParts, 'sqlOf' | 'strangers' | 'tokens' | 'addressOf' | 'baseUrl' | 'now'> {
  /** The plan of accounts that are made for identities of the trusted issuer; null: none are. */
  readonly openFor: { readonly plan: string } | null;
  /** Called when `last_use` could not be written; the request goes on. */
  readonly onProblem: (error: unknown) => void;
}

/** RFC 6750 section 2.1 and RFC 9110 section 11.4: the scheme in any case, spaces, one token. */
const BEARER = /^bearer +([A-Za-z0-9._~+/=-]+)$/i;

/**
 * Requests whose session is asked for. What an account sends beyond its turns waits here, before it has cost anything: a request that has had
 * its turn is soon done with. One account has 400 a second, which is a fraction of what the store and the serving thread can do.
 */
const REQUESTS = {
  ...{ running: 1_000, runningEach: 8, leastMs: 20 },
  ...{ waiting: 10_000, waitingEach: 7_500, waitMs: 4_000 },
};
/** A session that has ended doesn't come back; on another node's clock one may live a little longer. */
const ENDED_MS = 10_000;

export function createAuthenticate(parts: AuthenticateParts): {
  readonly authenticate: Authenticate;
  readonly likelyUser: LikelyUser;
} {
  const { sqlOf, strangers, tokens, baseUrl, addressOf, openFor, now, onProblem } = parts;
  const ended = createRemembered<object>(now);
  const turns = turnsWithin(REQUESTS, 'storeBusy');
  /** Sessions whose `last_use` is being written: requests at the same time don't queue up for it. */
  const touching = new Set<string>();

  function touch(userId: string, sessionId: string): void {
    if (touching.has(sessionId)) return;
    touching.add(sessionId);
    touchSession(sqlOf(userId), sessionId, now())
      .catch(onProblem)
      .finally(() => touching.delete(sessionId));
  }

  async function callerOf(token: string, address: string): Promise<Caller> {
    const verification = await tokens.verify(token, [address]);
    switch (verification.outcome) {
      case 'invalid':
        return await strangers.refuse(address, new Failure('tokenInvalid'));
      case 'expired':
        return await strangers.refuse(address, new Failure('tokenExpired'));
      case 'own': {
        const { userId, sessionId } = verification;
        if (ended.get(sessionId) !== null) return await strangers.refuse(address, new Failure('tokenInvalid'));
        const found = await turns.run([userId], () => findSession(sqlOf(userId), verification, now()));
        if (found === null) {
          ended.set(sessionId, {}, now() + ENDED_MS);
          throw new Failure('tokenInvalid');
        }
        if (found.lastUseIsOld) touch(userId, sessionId);
        return found.caller;
      }
      case 'external': {
        const user = await findExternalUser(
          sqlOf(`${verification.issuer} ${verification.subject}`),
          verification,
          openFor,
        );
        if (user === null) throw new Failure('tokenInvalid');
        return { ...user, sessionId: null };
      }
    }
  }

  return {
    async authenticate(exchange) {
      const token = allowedToken(exchange, baseUrl);
      return await callerOf(token, throttledAs(addressOf(exchange)));
    },
    likelyUser(exchange) {
      try {
        const session = tokens.recall(allowedToken(exchange, baseUrl));
        return session === null || ended.get(session.sessionId) !== null ? null : session.userId;
      } catch {
        // `authenticate` says why.
        return null;
      }
    },
  };
}

interface ExternalIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the issuer, or null. */
  readonly email: string | null;
}

type ExternalUser = Omit<Caller, 'sessionId'>;

/** As ours are spelled. */
const USER_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The account of an identity, or null. At first sight it is the account with its verified address, unless that account's owner
 * only typed it; if there is none, one is made when `openFor` names a plan. After that the address counts no more: an issuer may
 * give it to somebody else.
 */
async function findExternalUser(
  sql: Sql,
  identity: ExternalIdentity,
  openFor: { readonly plan: string } | null,
): Promise<ExternalUser | null> {
  const known = await findKnown(sql, identity);
  if (known !== null || identity.email === null) return known;
  const email = normaliseEmail(identity.email);
  if (openFor !== null) await createUser(sql, { email, name: '', passwordHash: null, plan: openFor.plan });
  // Two requests at first sight: the second finds the first one's link.
  await sql`
    INSERT INTO identities (issuer, subject, user_id)
    SELECT ${identity.issuer}, ${identity.subject}, id FROM users WHERE lower(email) = ${email} AND email_vouched
    ON CONFLICT DO NOTHING`;
  return await findKnown(sql, identity);
}

/** A link first; without one, a subject that is the id of an account is that account. Throws Failure `accountSuspended`. */
async function findKnown(sql: Sql, { issuer, subject }: ExternalIdentity): Promise<ExternalUser | null> {
  const [row] = await sql<Pick<UserRow, 'id' | 'plan' | 'own_limit' | 'role' | 'suspended_at'>[]>`
    SELECT id, plan, own_limit, role, suspended_at FROM users WHERE id = coalesce(
      (SELECT user_id FROM identities WHERE issuer = ${issuer} AND subject = ${subject}),
      ${USER_ID.test(subject) ? subject : null}::uuid)`;
  if (row === undefined) return null;
  if (row.suspended_at !== null) throw new Failure('accountSuspended');
  return { userId: row.id, plan: row.plan, ownLimit: row.own_limit, role: row.role, twoFactor: false };
}

/** Throws what `tokenOf` throws, or Failure `crossSite`. */
function allowedToken(exchange: Exchange, baseUrl: string | null): string {
  const { token, source } = tokenOf(exchange);
  if (source === 'cookie' && isCrossSite(exchange, baseUrl)) throw new Failure('crossSite');
  return token;
}

/** The one token that a request carries; throws Failure `tokenMissing`, or `tokenInvalid` when there are two that differ. */
export function tokenOf({ headers }: Pick<Exchange, 'headers'>): { token: string; source: 'header' | 'cookie' } {
  const [cookie, ...more] = readCookies(headers.get('cookie'), ACCESS_COOKIE);
  const authorization = headers.get('authorization');
  if (more.length > 0) throw new Failure('tokenInvalid');
  if (authorization === undefined) {
    if (cookie === undefined) throw new Failure('tokenMissing');
    return { token: cookie, source: 'cookie' };
  }
  // A header with something else in it is no reason to look into the cookie: the client has chosen the header.
  const token = BEARER.exec(authorization)?.[1];
  if (token === undefined || (cookie !== undefined && cookie !== token)) throw new Failure('tokenInvalid');
  return { token, source: 'header' };
}

const ACCESS_COOKIE = 'sluice_access';
export const REFRESH_COOKIE = 'sluice_refresh';

const REFRESH_PATH = '/web/auth';

interface CookieOptions {
  /** Behind https: then browsers send them nowhere else. */
  readonly secure: boolean;
}

export function signedInCookies(tokens: { readonly access: string; readonly refresh: string }, options: CookieOptions) {
  return [
    cookie(ACCESS_COOKIE, tokens.access, '/', ACCESS_TOKEN_SECONDS, options),
    cookie(REFRESH_COOKIE, tokens.refresh, REFRESH_PATH, REFRESH_TOKEN_MS / 1000, options),
  ];
}

export function signedOutCookies(options: CookieOptions): string[] {
  return [cookie(ACCESS_COOKIE, '', '/', 0, options), cookie(REFRESH_COOKIE, '', REFRESH_PATH, 0, options)];
}

function cookie(name: string, value: string, path: string, maxAgeSeconds: number, { secure }: CookieOptions): string {
  const attributes = `Path=${path}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict`;
  return `${name}=${value}; ${attributes}${secure ? '; Secure' : ''}`;
}

/** Every value that a Cookie header has for a name (RFC 6265 section 5.4): more than one when another site of the domain set one, too. */
export function readCookies(header: string | undefined, name: string): string[] {
  return (header ?? '').split(';').flatMap((pair) => {
    const equals = pair.indexOf('=');
    return equals !== -1 && pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : [];
  });
}

const SAFE_METHODS = new Set(['GET', 'HEAD']);
/** `none`: the user typed the address. `same-site` isn't enough: that is any port and any neighbour of the domain. */
const OWN = new Set(['same-origin', 'none']);

/**
 * `Sec-Fetch-Site` decides where it is sent, otherwise `Origin`, which must be that of `baseUrl` or name the host that was asked.
 * With neither the request isn't a browser's: every browser that knows SameSite, which our cookies have, sends Origin with unsafe methods.
 */
export function isCrossSite(
  { method, headers }: Pick<Exchange, 'method' | 'headers'>,
  baseUrl: string | null,
): boolean {
  if (SAFE_METHODS.has(method)) return false;
  const site = headers.get('sec-fetch-site');
  if (site !== undefined) return !OWN.has(site.toLowerCase());
  const origin = headers.get('origin');
  if (origin === undefined) return false;
  const url = parseUrl(origin);
  if (url === null) return true;
  const { host, origin: canonical } = url;
  if (baseUrl !== null && new URL(baseUrl).origin === canonical) return false;
  return host === '' || host !== hostOf(headers.get('host') ?? '', origin);
}

interface OpenRoute extends Omit<Route, 'operation'> {
  readonly operation: GuardedOperation;
}

/** Routes that anybody may ask, unless another site's page has its visitor change something: Failure `crossSite`. */
export function fromHere(baseUrl: string | null, routes: readonly OpenRoute[]): Route[] {
  return routes.map((route) => ({
    ...route,
    operation: withGuards(route, 'anybody', isReading(route) ? [] : ['crossSite', 'unavailable']),
    handle(exchange, parameters) {
      if (isCrossSite(exchange, baseUrl)) throw new Failure('crossSite');
      return route.handle(exchange, parameters);
    },
  }));
}

/** As the URL parser spells it: lower case, without the scheme's own port. */
function hostOf(header: string, origin: string): string | null {
  return parseUrl(`${origin.startsWith('https:') ? 'https' : 'http'}://${header}`)?.host ?? null;
}
