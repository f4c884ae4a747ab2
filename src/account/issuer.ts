// The third-party issuer that an operator may trust: its tokens, and who its `sub` is here: the account with that id, or the one it was linked to
// at first sight by a verified e-mail address.
import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { z } from 'zod';
import { Failure, Unavailable } from '../errors.js';
import type { Caller } from '../http/caller.js';
import { fetch } from '../http/fetch.js';
import type { Sql } from '../store/postgres.js';
import { claimChecks, expired, inTime, invalid, type Verification, verified } from './jwt.js';
import { createUser, normaliseEmail, type UserRow } from './users.js';

/** Signatures that can be checked with a public key, by RFC 7518 and RFC 8037; no `none`, no HMAC. */
export const ISSUER_ALGORITHMS = [
  ...['EdDSA', 'Ed25519', 'ES256', 'ES384', 'ES512'],
  ...['PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'],
];
/** An issuer's keys: how long they are waited for, kept, and not asked for again, after an answer and after a failure. */
const JWKS_TIMEOUT_MS = 5_000;
const JWKS_FRESH_MS = 10 * 60_000;
const JWKS_COOLDOWN_MS = 30_000;
const JWKS_FAILURE_COOLDOWN_MS = 5_000;
export interface TrustedIssuer {
  readonly issuer: string;
  readonly jwksUrl: string;
  readonly audience: string;
}

const IssuerHeader = z.object({
  alg: z.enum(ISSUER_ALGORITHMS),
  kid: z.string().max(256).optional(),
  typ: z
    .string()
    .regex(/^(application\/)?(at\+)?jwt$/i)
    .optional(),
  crit: z.never().optional(),
  b64: z.never().optional(),
});
const IssuerClaims = z.object({
  sub: z
    .string()
    .min(1)
    .max(255)
    .regex(/^\P{Cc}*$/u),
  exp: z.number(),
  iat: z.number().optional(),
  email: z.email().max(254).optional().catch(undefined),
  email_verified: z.boolean().optional().catch(undefined),
});

export function createExternalVerifier(trusted: TrustedIssuer, now: () => number) {
  const remote = createRemoteJWKSet(new URL(trusted.jwksUrl), {
    timeoutDuration: JWKS_TIMEOUT_MS,
    cooldownDuration: JWKS_COOLDOWN_MS,
    cacheMaxAge: JWKS_FRESH_MS,
    [customFetch]: fetch,
  });
  let failedAt = Number.NEGATIVE_INFINITY;

  const findKey: JWTVerifyGetKey = async (header, token) => {
    if (now() - failedAt < JWKS_FAILURE_COOLDOWN_MS) throw issuerUnreachable();
    try {
      return await remote(header, token);
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) throw error;
      failedAt = now();
      throw issuerUnreachable(error);
    }
  };

  return async (token: string, header: unknown): Promise<Verification> => {
    if (!IssuerHeader.safeParse(header).success) return invalid;
    const { issuer, audience } = trusted;
    const payload = await verified(() =>
      jwtVerify(token, findKey, { ...claimChecks(now()), algorithms: ISSUER_ALGORITHMS, issuer, audience }),
    );
    if (typeof payload === 'string') return payload === 'expired' ? expired : invalid;
    const claims = IssuerClaims.safeParse(payload);
    if (!claims.success) return invalid;
    const { sub, iat, exp, email, email_verified: isVerified } = claims.data;
    const late = inTime({ iat: iat ?? 0, exp }, now());
    if (late !== null) return late;
    const verifiedEmail = isVerified === true ? (email ?? null) : null;
    return { outcome: 'external', issuer, subject: sub, email: verifiedEmail, expMs: exp * 1000 };
  };
}

function issuerUnreachable(cause?: unknown): Unavailable {
  return new Unavailable('issuerDown', { cause });
}

export interface ExternalIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the issuer, or null. */
  readonly email: string | null;
}

export type ExternalUser = Omit<Caller, 'sessionId'>;

/** As ours are spelled. */
const USER_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The account of an identity, or null. At first sight it is the account with its verified address, unless that account's owner
 * only typed it; if there is none, one is made when `openFor` names a plan. After that the address counts no more: an issuer may
 * give it to somebody else.
 */
export async function findExternalUser(
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
