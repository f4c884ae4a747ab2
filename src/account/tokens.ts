// Access tokens: signed and verified here, and nowhere else; those of the trusted issuer by its own rules. A token is checked once, in turn.
import { jwtVerify, SignJWT } from 'jose';
import { z } from 'zod';
import { Unavailable } from '../errors.js';
import { Turns, type Who } from '../waiting/turns.js';
import { createExternalVerifier, type TrustedIssuer } from './issuer.js';
import {
  claimChecks,
  expired,
  inTime,
  invalid,
  readCompact,
  TOKEN_CHARACTERS,
  type Verification,
  verified,
} from './jwt.js';
import type { SigningKeys } from './signing-keys.js';
import { createRemembered } from './strangers.js';

export const ACCESS_TOKEN_SECONDS = 900;
/** Who a token of ours is for. */
const AUDIENCE = 'sluice-web';
/** Signatures that are checked at one time, each in a tenth of a millisecond of a thread; one address has one of them. */
const CHECKS = { running: 4, runningEach: 1, waiting: 4_000, waitingEach: 3_000, waitMs: 4_000 };
/** How long it is remembered that a signature is wrong. */
const FORGED_MS = 10_000;
/** The same of an issuer's token that is right: its keys may change. */
const EXTERNAL_MS = 60_000;

export type Tokens = ReturnType<typeof createTokens>;

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
/** The public keys as anybody may read them (RFC 7517). */
export const Jwks = z
  .object({
    keys: z.array(z.looseObject({ kid: z.string(), use: z.literal('sig'), alg: z.literal('EdDSA') })),
  })
  .meta({ id: 'Jwks' });

/** What is remembered of a token: that its signature is wrong, or what it says. */
type RememberedToken =
  | { readonly kind: 'forged' }
  /** In time or not: that is asked each time, and so is whether its key is still one. */
  | { readonly kind: 'own'; readonly kid: string; readonly claims: z.infer<typeof OwnClaims> }
  | { readonly kind: 'external'; readonly verification: Verification };

const forged: RememberedToken = { kind: 'forged' };

export function createTokens(keys: SigningKeys, { issuer, trusted, now }: TokenOptions) {
  const verifyExternal = trusted === null ? null : createExternalVerifier(trusted, now);
  const known = createRemembered<RememberedToken>(now);
  const checks = createChecks();
  // Apart from ours: an issuer whose keys don't come holds them up.
  const externalChecks = createChecks();

  function ownVerification({ sub, sid, iat, exp }: z.infer<typeof OwnClaims>): Verification {
    return inTime({ iat, exp }, now()) ?? { outcome: 'own', userId: sub, sessionId: sid };
  }

  async function verifyOwn(token: string, header: unknown, who: Who): Promise<Verification> {
    const read = OwnHeader.safeParse(header);
    if (!read.success) return invalid;
    const { kid } = read.data;
    const key = await keys.find(kid);
    if (key === null) return invalid;
    const options = { algorithms: ['EdDSA'], issuer, audience: AUDIENCE };
    const payload = await checks.run(who, () =>
      verified(() => jwtVerify(token, key.publicKey, { ...claimChecks(now()), ...options })),
    );
    if (payload === 'forged') known.set(token, forged, now() + FORGED_MS);
    if (typeof payload === 'string') return payload === 'expired' ? expired : invalid;
    const claims = OwnClaims.safeParse(payload);
    if (!claims.success || claims.data.exp - claims.data.iat > ACCESS_TOKEN_SECONDS) return invalid;
    // For some time longer: then it is known that it has expired.
    known.set(token, { kind: 'own', kid, claims: claims.data }, (claims.data.exp + ACCESS_TOKEN_SECONDS) * 1000);
    return ownVerification(claims.data);
  }

  /** Null: nothing is known of it. */
  function recall(token: string): Verification | null {
    const entry = known.get(token);
    switch (entry?.kind) {
      case 'forged':
        return invalid;
      case 'own':
        return keys.has(entry.kid) ? ownVerification(entry.claims) : null;
      case 'external':
        return entry.verification;
      default:
        return null;
    }
  }

  return {
    async mint({ userId, sessionId }: { readonly userId: string; readonly sessionId: string }): Promise<string> {
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
    /**
     * Whether it is genuine and in time; whether its session lives is another question. `who` sends it: until it is known to be genuine,
     * its sender is a stranger, who waits for a turn. Throws Failure('unavailable').
     */
    async verify(token: string, who: Who): Promise<Verification> {
      if (token.length > TOKEN_CHARACTERS) return invalid;
      const recalled = recall(token);
      if (recalled !== null) return recalled;
      const parts = readCompact(token);
      if (parts === null) return invalid;
      // Not believed yet: it only says whose rules the token is verified by, and each of them checks it.
      const isExternal = trusted !== null && parts.claimedIssuer === trusted.issuer;
      if (!isExternal || verifyExternal === null) return await verifyOwn(token, parts.header, who);
      const verification = await externalChecks.run(who, () => verifyExternal(token, parts.header));
      if (verification.outcome === 'external') {
        known.set(token, { kind: 'external', verification }, Math.min(verification.expMs, now() + EXTERNAL_MS));
      }
      return verification;
    },
    /** The session that a token of ours is of, where that was found out before; null: it must be verified. */
    recall(token: string): { readonly userId: string; readonly sessionId: string } | null {
      const recalled = recall(token);
      return recalled?.outcome === 'own' ? recalled : null;
    },
    /** RFC 7517: the public halves. */
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

function createChecks(): Turns {
  const busy = (): Error => new Unavailable('signInsBusy');
  return new Turns({ ...CHECKS, full: busy, late: busy });
}
