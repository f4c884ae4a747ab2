// The sign-in of the dashboard, wired: its keys loaded, its routes made, its upkeep running until it is stopped.

import { freePlanOf, type Plans } from '../config/plans.js';
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import type { SqlOf } from '../store/postgres.js';
import { createRounds } from '../waiting/rounds.js';
import { createAuthenticate } from './authenticate.js';
import { createKeyRoutes } from './key-routes.js';
import { type KeyNodes, tellOfEnded } from './keys.js';
import { createVerifyCurrent, hashPassword, verifyPassword } from './passwords.js';
import { createProtectionRoutes, type DeleteOwn } from './protection.js';
import { createResetRoutes, type Mailer, openMailer, sweepResets } from './resets.js';
import { sweepSessions } from './sessions.js';
import { createSignIn } from './sign-in.js';
import { createSignInRoutes } from './sign-in-routes.js';
import { KEYS_RELOAD_MS, openSigningKeys } from './signing-keys.js';
import { createAddressOf, createStrangers } from './strangers.js';
import { createThrottle, sweepAttempts } from './throttle.js';
import { createTokens, type TrustedIssuer } from './tokens.js';
import { createSessionRoutes, createUserRoutes } from './user-routes.js';

interface DashboardOptions {
  readonly sqlOf: SqlOf;
  /** The `iss` of our tokens. */
  readonly issuer: string;
  readonly trustedIssuer: TrustedIssuer | null;
  readonly baseUrl: string | null;
  readonly plans: Plans;
  readonly registration: 'open' | 'closed';
  /** Null: the service sends no mail. */
  readonly smtpUrl: string | null;
  readonly mailFrom: string;
  /** Networks, in CIDR notation. */
  readonly trustedProxies: readonly string[];
  readonly admission: KeyNodes;
  readonly deleteAccount: DeleteOwn;
  /** Resolves when the database has what was recorded of the user's scans, or after a moment. */
  readonly settled: (userId: string) => Promise<void>;
  readonly log: Log;
  readonly now: () => number;
}

/** The party of its own questions, among the accounts that share the store's connections. */
const SERVICE = 'service';

export async function openDashboard(options: DashboardOptions) {
  const { sqlOf, issuer, trustedIssuer, baseUrl, plans, registration, admission, settled, log, now } = options;
  const sql = sqlOf(SERVICE);
  const strangers = createStrangers();
  const throttle = createThrottle(now);
  const addressOf = createAddressOf(options.trustedProxies);
  const keys = await openSigningKeys(sql, now);
  const tokens = createTokens(keys, { issuer, trusted: trustedIssuer, now });
  const plan = freePlanOf(plans).name;
  const passwords = { hash: hashPassword, verify: verifyPassword };
  const mailer = await mailerOf(options);
  const verifyCurrent = createVerifyCurrent(throttle);
  const signIn = await createSignIn({ sqlOf, strangers, throttle, plan, passwords, now });

  let stopped = false;

  async function upkeep(): Promise<void> {
    try {
      await keys.reload();
      await sweepSessions(sql, now());
      await sweepAttempts(sql, now());
      await sweepResets(sql, now());
      await tellOfEnded(sql, admission);
    } catch (error) {
      if (stopped) return;
      log.warn({ reason: messageOfError(error) }, 'the upkeep of sessions and keys failed; it is tried again');
    }
  }
  const rounds = createRounds(KEYS_RELOAD_MS, upkeep);
  void rounds.now();

  return {
    ...createAuthenticate({
      sqlOf,
      strangers,
      tokens,
      addressOf,
      baseUrl,
      openFor: registration === 'open' ? { plan } : null,
      now,
      onProblem: (error) => log.warn({ reason: messageOfError(error) }, 'the last use of a session was not written'),
    }),
    /** Where a request comes from, behind proxies that are trusted. */
    addressOf,
    /** For anybody. */
    publicRoutes: [
      ...createSignInRoutes({
        sqlOf,
        strangers,
        signIn,
        tokens,
        plans,
        registration,
        passwordMail: mailer !== null,
        baseUrl,
        addressOf,
        now,
        onReuse: (session) => log.warn(session, 'a used refresh token was shown again: its session is ended'),
      }),
      ...createResetRoutes({ sqlOf, strangers, throttle, mailer, baseUrl, addressOf, now }),
    ],
    callerRoutes: [
      ...createSessionRoutes({ sqlOf, now }),
      ...createUserRoutes({ sqlOf, plans, verifyCurrent }),
      ...createProtectionRoutes({
        ...{ sqlOf, throttle, verifyCurrent, addressOf, now },
        deleteAccount: options.deleteAccount,
      }),
      ...createKeyRoutes({ sqlOf, throttle, admission, plans, now, settled }),
    ],
    async stop(): Promise<void> {
      // What runs is ended with the connections.
      stopped = true;
      rounds.end();
      await mailer?.stop();
    },
  };
}

async function mailerOf({ smtpUrl, mailFrom, log }: DashboardOptions): Promise<Mailer | null> {
  if (smtpUrl === null) return null;
  return await openMailer({
    url: smtpUrl,
    from: mailFrom,
    onProblem: (reason) => log.warn({ reason }, 'a mail could not be sent'),
  });
}
