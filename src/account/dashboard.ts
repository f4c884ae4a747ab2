// The routes of the signed-in user's own account and sessions; and the sign-in of the dashboard, wired: its keys loaded, its routes made, its upkeep running until it is
// stopped.
import { z } from 'zod';
import type { Config } from '../config/config.js';
import { freePlanOf } from '../config/plans.js';
import { messageOfError } from '../error-text.js';
import { Failure } from '../errors.js';
import { type CallerRoute, callerRoute, type GuardedOperation } from '../http/caller.js';
import { jsonReply, noContent, readJson, readQuery } from '../http/json.js';
import { jsonAnswer, jsonBody, pathParameter, queryBoolean, queryParameters } from '../http/openapi.js';
import type { Log } from '../log.js';
import type { Queries, Sql } from '../store/postgres.js';
import { createRounds } from '../waiting/limiter.js';
import { createAuthenticate } from './authenticate.js';
import { createKeyRoutes } from './key-routes.js';
import { tellOfEnded } from './keys.js';
import type { AccountParts } from './parts.js';
import { createProtectionRoutes } from './protection.js';
import { createResetRoutes, type Mailer, openMailer, sweepResets } from './resets.js';
import { endOtherSessions, endSession, endSessions, listSessions, SessionView, sweepSessions } from './sessions.js';
import { createSignIn, createSignInRoutes } from './sign-in-routes.js';
import { createAddressOf, createStrangers, createThrottle, rules, sweepAttempts } from './throttle.js';
import { createTokens, KEYS_RELOAD_MS, openSigningKeys, type SigningKeys } from './tokens.js';
import {
  changeUser,
  createVerifyCurrent,
  EmailField,
  findUser,
  hashPassword,
  NewPasswordField,
  PasswordField,
  SomeNameField,
  UserView,
  userView,
  verifyPassword,
  wrongPassword,
} from './users.js';

const Changes = z
  .strictObject({
    name: SomeNameField.optional(),
    email: EmailField.optional(),
    newPassword: NewPasswordField.optional(),
    currentPassword: PasswordField.optional(),
  })
  .superRefine(({ name, email, newPassword, currentPassword }, context) => {
    const isSecured = email !== undefined || newPassword !== undefined;
    if (!isSecured && name === undefined) context.addIssue('Send at least one of name, email and newPassword');
    if (isSecured && currentPassword === undefined) {
      context.addIssue({ code: 'custom', path: ['currentPassword'], message: 'email and newPassword need it' });
    }
  })
  .meta({ id: 'UserChange' });

const Me = UserView.extend({ twoFactor: z.boolean().describe('Whether signing in takes a code as well') }).meta({
  id: 'User',
});

type UserRouteParts = Pick<AccountParts, 'sqlOf' | 'plans' | 'verifyCurrent'>;

export function createUserRoutes({ sqlOf, plans, verifyCurrent }: UserRouteParts): CallerRoute[] {
  return [
    callerRoute('GET /web/users/me', showOperation, async ({ userId, twoFactor }) => {
      const user = await findUser(sqlOf(userId), userId);
      if (user === null) throw new Failure('tokenInvalid');
      return jsonReply(200, { ...userView(user, plans), twoFactor });
    }),
    callerRoute('PUT /web/users/me', changeOperation, async (caller, exchange) => {
      const { name, email, newPassword, currentPassword } = await readJson(exchange, Changes);
      const sql = sqlOf(caller.userId);
      const isSecured = email !== undefined || newPassword !== undefined;
      const verifiedHash =
        isSecured && currentPassword !== undefined ? await verifyCurrent(sql, caller, currentPassword) : null;
      const passwordHash = newPassword === undefined ? null : await hashPassword(newPassword, [caller.userId]);
      const change = { name: name ?? null, email: email ?? null, passwordHash, verifiedHash };
      const onNewPassword = (tx: Queries) => endOtherSessions(tx, caller.userId, caller.sessionId);
      const result = await changeUser(sql, caller.userId, change, onNewPassword);
      switch (result.outcome) {
        case 'emailTaken':
          throw new Failure('conflict', 'email: this address has an account');
        case 'notAsVerified':
          throw verifiedHash === null ? new Failure('tokenInvalid') : wrongPassword();
        case 'changed':
          return jsonReply(200, { ...userView(result.user, plans), twoFactor: caller.twoFactor });
      }
    }),
  ];
}

const showOperation: GuardedOperation = {
  summary: 'You',
  tag: 'users',
  responses: { 200: jsonAnswer('Your account.', Me) },
};

const changeOperation: GuardedOperation = {
  summary: 'Changes your name, your e-mail address or your password',
  description:
    'What is left out stays. `email` and `newPassword` need `currentPassword`; a wrong one is a 400, and after ten of them in one ' +
    `session a 429 with Retry-After, as after ${rules.passwordsOfAccount.burst} changes of one account in a row. ` +
    'A new password ends your other sessions.',
  tag: 'users',
  requestBody: jsonBody(Changes),
  responses: { 200: jsonAnswer('Your account as it is now.', Me) },
  errors: ['conflict', 'tooManyAttempts'],
};

const Id = z.uuid();
const EndAll = z.strictObject({
  keepCurrent: queryBoolean({ default: false }).default(false).describe('true spares the session that asks'),
});

function createSessionRoutes({ sqlOf, now }: Pick<AccountParts, 'sqlOf' | 'now'>): CallerRoute[] {
  return [
    callerRoute('GET /web/users/me/sessions', listOperation, async (caller) =>
      jsonReply(200, await listSessions(sqlOf(caller.userId), caller, now())),
    ),
    callerRoute(
      'DELETE /web/users/me/sessions/{sessionId}',
      endOperation,
      async ({ userId }, _exchange, { sessionId }) => {
        const id = Id.safeParse(sessionId);
        const ended = id.success && (await endSession(sqlOf(userId), userId, id.data));
        if (!ended) throw new Failure('notFound', 'the session');
        return noContent;
      },
    ),
    callerRoute('DELETE /web/users/me/sessions', endAllOperation, async ({ userId, sessionId }, exchange) => {
      const { keepCurrent } = readQuery(exchange, EndAll);
      await endSessions(sqlOf(userId), userId, keepCurrent ? sessionId : null);
      return noContent;
    }),
  ];
}

const listOperation: GuardedOperation = {
  summary: 'Your sessions, the one used last first',
  tag: 'users',
  responses: { 200: jsonAnswer('The sessions.', z.array(SessionView)) },
};

const endOperation: GuardedOperation = {
  summary: 'Ends one of your sessions: its tokens are refused from the next request on',
  tag: 'users',
  parameters: [pathParameter('sessionId', Id.describe('Of the session.'))],
  responses: { 204: { description: 'Ended.' } },
  errors: ['notFound'],
};

const endAllOperation: GuardedOperation = {
  summary: 'Ends all of your sessions',
  tag: 'users',
  parameters: queryParameters(EndAll),
  responses: { 204: { description: 'Ended.' } },
};

interface DashboardOptions
  extends Pick<Config, 'trustedIssuer' | 'registration' | 'smtpUrl' | 'mailFrom' | 'trustedProxies'>,
    Pick<AccountParts, 'sqlOf' | 'plans' | 'baseUrl' | 'admission' | 'deleteAccount' | 'settled' | 'now'> {
  /** The `iss` of our tokens. */
  readonly issuer: string;
  readonly log: Log;
}

/** The party of its own questions, among the accounts that share the store's connections. */
const SERVICE = 'service';

export async function openDashboard(options: DashboardOptions) {
  const { sqlOf, issuer, trustedIssuer, plans, registration, log, now } = options;
  const sql = sqlOf(SERVICE);
  const keys = await openSigningKeys(sql, now);
  const throttle = createThrottle(now);
  const parts: AccountParts = {
    ...options,
    strangers: createStrangers(),
    throttle,
    tokens: createTokens(keys, { issuer, trusted: trustedIssuer, now }),
    verifyCurrent: createVerifyCurrent(throttle),
    addressOf: createAddressOf(options.trustedProxies),
  };
  const plan = freePlanOf(plans).name;
  const passwords = { hash: hashPassword, verify: verifyPassword };
  const mailer = await mailerOf(options);
  const signIn = await createSignIn({ ...parts, plan, passwords });

  const upkeep = startUpkeep(sql, keys, options);

  return {
    ...createAuthenticate({
      ...parts,
      openFor: registration === 'open' ? { plan } : null,
      onProblem: (error) => log.warn({ reason: messageOfError(error) }, 'the last use of a session was not written'),
    }),
    addressOf: parts.addressOf,
    publicRoutes: [
      ...createSignInRoutes({
        ...parts,
        ...{ signIn, registration, passwordMail: mailer !== null },
        onReuse: (session) => log.warn(session, 'a used refresh token was shown again: its session is ended'),
      }),
      ...createResetRoutes({ ...parts, mailer }),
    ],
    callerRoutes: [
      ...createSessionRoutes(parts),
      ...createUserRoutes(parts),
      ...createProtectionRoutes(parts),
      ...createKeyRoutes(parts),
    ],
    async stop(): Promise<void> {
      upkeep.stop();
      await mailer?.stop();
    },
  };
}

/** Of what has ended and of the keys, at once and from time to time. */
function startUpkeep(sql: Sql, keys: SigningKeys, { admission, log, now }: DashboardOptions) {
  let stopped = false;
  const rounds = createRounds(KEYS_RELOAD_MS, async () => {
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
  });
  void rounds.now();
  return {
    /** What runs is ended with the connections. */
    stop(): void {
      stopped = true;
      rounds.end();
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
