// The sign-in of the dashboard, wired: its keys loaded, its routes made, its upkeep running until it is stopped.

import { freePlanOf, type Plans } from '../config/plans.js';
import { messageOfError } from '../error-text.js';
import type { Authenticate, CallerRoute } from '../http/caller.js';
import type { Route } from '../http/router.js';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { sweepAttempts } from './attempts.js';
import { createAuthenticate } from './authenticate.js';
import { createClientAddress } from './client-address.js';
import { createKeyRoutes } from './key-routes.js';
import { createPasswordGuesses } from './password-guesses.js';
import { hashPassword, verifyPassword } from './passwords.js';
import { type KeyRevocation, tellOfEnded } from './revocation.js';
import { createSessionRoutes } from './session-routes.js';
import { endOtherSessions, sweepSessions } from './sessions.js';
import { createSignIn } from './sign-in.js';
import { createSignInRoutes } from './sign-in-routes.js';
import { KEYS_RELOAD_MS, openSigningKeys } from './signing-keys.js';
import { createTokens, type TrustedIssuer } from './tokens.js';
import { createUserRoutes } from './user-routes.js';

export interface DashboardOptions {
  readonly sql: Sql;
  /** The `iss` of our tokens. */
  readonly issuer: string;
  readonly trustedIssuer: TrustedIssuer | null;
  readonly baseUrl: string | null;
  readonly plans: Plans;
  readonly registration: 'open' | 'closed';
  /** Networks, in CIDR notation. */
  readonly trustedProxies: readonly string[];
  readonly admission: KeyRevocation;
  /** A use of a key that Postgres perhaps doesn't know of yet. */
  readonly recentUse: (keyId: string) => Date | null;
  readonly log: Log;
  readonly now: () => number;
}

export interface Dashboard {
  readonly authenticate: Authenticate;
  /** For anybody. */
  readonly publicRoutes: readonly Route[];
  readonly callerRoutes: readonly CallerRoute[];
  stop(): Promise<void>;
}

export async function openDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { sql, issuer, trustedIssuer, baseUrl, plans, registration, admission, recentUse, log, now } = options;
  const keys = await openSigningKeys(sql, now);
  const tokens = createTokens(keys, { issuer, trusted: trustedIssuer, now });
  const plan = freePlanOf(plans).name;
  const passwords = { hash: hashPassword, verify: verifyPassword };
  const signIn = await createSignIn({ sql, plan, registration, passwords, now });

  let stopped = false;

  async function upkeep(): Promise<void> {
    try {
      await keys.reload();
      await sweepSessions(sql, now());
      await sweepAttempts(sql, now());
      await tellOfEnded(sql, admission);
    } catch (error) {
      if (stopped) return;
      log.warn({ reason: messageOfError(error) }, 'the upkeep of sessions and keys failed; it is tried again');
    }
  }
  let running = false;
  const tick = (): void => {
    // A Postgres that hangs must not be given more and more to do.
    if (running) return;
    running = true;
    void upkeep().finally(() => {
      running = false;
    });
  };
  tick();
  const timer = setInterval(tick, KEYS_RELOAD_MS);

  return {
    authenticate: createAuthenticate({
      sql,
      tokens,
      baseUrl,
      openFor: registration === 'open' ? { plan } : null,
      now,
      onProblem: (error) => log.warn({ reason: messageOfError(error) }, 'the last use of a session was not written'),
    }),
    publicRoutes: createSignInRoutes({
      sql,
      signIn,
      tokens,
      plans,
      registration,
      baseUrl,
      clientAddress: createClientAddress(options.trustedProxies),
      now,
      onReuse: (session) => log.warn(session, 'a used refresh token was shown again: its session is ended'),
    }),
    callerRoutes: [
      ...createSessionRoutes({ sql, now }),
      ...createUserRoutes({ sql, plans, passwords, countGuess: createPasswordGuesses(sql, now), endOtherSessions }),
      ...createKeyRoutes({ sql, now, admission, recentUse }),
    ],
    async stop() {
      // What runs is ended with the connections.
      stopped = true;
      clearInterval(timer);
    },
  };
}
