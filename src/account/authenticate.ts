// Who is signed in: a bearer token or the cookie in, the caller with a live session out.
import { Failure } from '../errors.js';
import type { Authenticate, Caller } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import type { Sql } from '../store/postgres.js';
import { ACCESS_COOKIE, readCookies } from './cookies.js';
import { isCrossSite } from './cross-site.js';
import { findExternalUser } from './identities.js';
import { findSession, touchSession } from './sessions.js';
import type { Tokens } from './tokens.js';

export interface AuthenticateParts {
  readonly sql: Sql;
  readonly tokens: Tokens;
  readonly baseUrl: string | null;
  /** The plan of accounts that are made for identities of the trusted issuer; null: none are. */
  readonly openFor: { readonly plan: string } | null;
  readonly now: () => number;
  /** Called when `last_use` could not be written; the request goes on. */
  readonly onProblem: (error: unknown) => void;
}

/** RFC 6750 section 2.1 and RFC 9110 section 11.4: the scheme in any case, spaces, one token. */
const BEARER = /^bearer +([A-Za-z0-9._~+/=-]+)$/i;

export function createAuthenticate({ sql, tokens, baseUrl, openFor, now, onProblem }: AuthenticateParts): Authenticate {
  /** Sessions whose `last_use` is being written: requests at the same time don't queue up for it. */
  const touching = new Set<string>();

  function touch(sessionId: string): void {
    if (touching.has(sessionId)) return;
    touching.add(sessionId);
    touchSession(sql, sessionId, now())
      .catch(onProblem)
      .finally(() => touching.delete(sessionId));
  }

  async function callerOf(token: string): Promise<Caller> {
    const verification = await tokens.verify(token);
    switch (verification.outcome) {
      case 'invalid':
        throw new Failure('tokenInvalid');
      case 'expired':
        throw new Failure('tokenExpired');
      case 'own': {
        const found = await findSession(sql, verification, now());
        if (found === null) throw new Failure('tokenInvalid');
        if (found.lastUseIsOld) touch(verification.sessionId);
        return found.caller;
      }
      case 'external': {
        const user = await findExternalUser(sql, verification, openFor);
        if (user === null) throw new Failure('tokenInvalid');
        return { ...user, sessionId: null };
      }
    }
  }

  return async (exchange) => {
    const { token, source } = tokenOf(exchange);
    if (source === 'cookie' && isCrossSite(exchange, baseUrl)) throw new Failure('crossSite');
    return await callerOf(token);
  };
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
