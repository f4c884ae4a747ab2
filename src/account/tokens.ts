// Access tokens: signed and verified here, and nowhere else; ours, and those of one third-party issuer that the operator trusts.
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
  SignJWT,
} from 'jose';
import { z } from 'zod';
import { Unavailable } from '../errors.js';
import { fetch } from '../http/fetch.js';
import { readCompact } from './compact-token.js';
import type { SigningKeys } from './signing-keys.js';

export const ACCESS_TOKEN_SECONDS = 900;
/** Clocks of nodes may differ by so much: for `iat` and `nbf`, never for `exp`. */
const CLOCK_TOLERANCE_SECONDS = 30;
/** Who a token of ours is for. */
const AUDIENCE = 'sluice-web';
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

export type Verification =
  | { readonly outcome: 'own'; readonly userId: string; readonly sessionId: string }
  /** Email is null unless the issuer says that it is verified. */
  | { readonly outcome: 'external'; readonly issuer: string; readonly subject: string; readonly email: string | null }
  | { readonly outcome: 'expired' }
  | { readonly outcome: 'invalid' };

export interface Tokens {
  mint(session: { readonly userId: string; readonly sessionId: string }): Promise<string>;
  /** Whether it is genuine and in time; whether its session lives is another question. Throws Failure('unavailable'). */
  verify(token: string): Promise<Verification>;
  /** RFC 7517: the public halves. */
  jwks(): { readonly keys: readonly object[] };
}

export interface TokenOptions {
  /** The `iss` of our own. */
  readonly issuer: string;
  readonly trusted: TrustedIssuer | null;
  readonly now: () => number;
}

const Uuid = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
/** What `mint` writes, to the letter: no `crit`, `jku`, `jwk`, `x5c`, `b64` or whatever else may be invented. */
const OwnHeader = z.strictObject({ alg: z.literal('EdDSA'), kid: Uuid, typ: z.literal('JWT') });
const OwnClaims = z.object({
  aud: z.literal(AUDIENCE),
  sub: Uuid,
  sid: Uuid,
  iat: z.int(),
  exp: z.int(),
});
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

/** The public keys as anybody may read them (RFC 7517). */
export const Jwks = z.object({
  keys: z.array(z.looseObject({ kid: z.string(), use: z.literal('sig'), alg: z.literal('EdDSA') })),
});

const invalid: Verification = { outcome: 'invalid' };
const expired: Verification = { outcome: 'expired' };

export function createTokens(keys: SigningKeys, { issuer, trusted, now }: TokenOptions): Tokens {
  const verifyExternal = trusted === null ? null : createExternalVerifier(trusted, now);

  async function verifyOwn(token: string, header: unknown): Promise<Verification> {
    const read = OwnHeader.safeParse(header);
    if (!read.success) return invalid;
    const key = await keys.find(read.data.kid);
    if (key === null) return invalid;
    const payload = await verified(() =>
      jwtVerify(token, key.publicKey, { ...claimChecks(now()), algorithms: ['EdDSA'], issuer, audience: AUDIENCE }),
    );
    if (typeof payload === 'string') return payload === 'expired' ? expired : invalid;
    const claims = OwnClaims.safeParse(payload);
    if (!claims.success) return invalid;
    const { sub, sid, iat, exp } = claims.data;
    if (exp - iat > ACCESS_TOKEN_SECONDS) return invalid;
    return inTime({ iat, exp }, now()) ?? { outcome: 'own', userId: sub, sessionId: sid };
  }

  return {
    async mint({ userId, sessionId }) {
      const { id, privateKey } = keys.current();
      const issuedAt = Math.floor(now() / 1000);
      return await new SignJWT({ sid: sessionId })
        .setProtectedHeader({ alg: 'EdDSA', kid: id, typ: 'JWT' })
        .setIssuer(issuer)
        .setAudience(AUDIENCE)
        .setSubject(userId)
        .setIssuedAt(issuedAt)
        .setExpirationTime(issuedAt + ACCESS_TOKEN_SECONDS)
        .sign(privateKey);
    },
    async verify(token) {
      const parts = readCompact(token);
      if (parts === null) return invalid;
      // Not believed yet: it only says whose rules the token is verified by, and each of them checks it.
      const isExternal = trusted !== null && parts.claimedIssuer === trusted.issuer;
      return isExternal && verifyExternal !== null
        ? await verifyExternal(token, parts.header)
        : await verifyOwn(token, parts.header);
    },
    jwks: () => ({
      keys: keys.all().map(({ id, publicKey }) => ({
        ...publicKey.export({ format: 'jwk' }),
        kid: id,
        use: 'sig',
        alg: 'EdDSA',
      })),
    }),
  };
}

function createExternalVerifier(trusted: TrustedIssuer, now: () => number) {
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
    return { outcome: 'external', issuer, subject: sub, email: isVerified === true ? (email ?? null) : null };
  };
}

function issuerUnreachable(cause?: unknown): Unavailable {
  return new Unavailable('issuerDown', { cause });
}

function claimChecks(nowMs: number) {
  return { currentDate: new Date(nowMs), clockTolerance: CLOCK_TOLERANCE_SECONDS };
}

/** The claims, or why there are none to believe. What isn't the library's refusal surfaces. */
async function verified(verify: () => Promise<{ payload: JWTPayload }>): Promise<JWTPayload | 'expired' | 'invalid'> {
  try {
    return (await verify()).payload;
  } catch (error) {
    if (error instanceof errors.JWTExpired) return 'expired';
    if (error instanceof errors.JOSEError) return 'invalid';
    throw error;
  }
}

/** What the library's tolerance lets through and we don't: null when the token is in time. */
function inTime({ iat, exp }: { readonly iat: number; readonly exp: number }, nowMs: number): Verification | null {
  const nowSeconds = nowMs / 1000;
  if (exp <= nowSeconds) return expired;
  return iat > nowSeconds + CLOCK_TOLERANCE_SECONDS ? invalid : null;
}
