// Access tokens, JSON Web Tokens (RFC 7519): ours, signed and verified here and nowhere else, and those of the one issuer that an operator may
// trust, by its own rules. A token is read strictly before anything in it is believed, and is checked once, in turn. The Ed25519 keys that sign ours are kept in
// Postgres, made anew every 30 days, and known to every node before they sign.
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose';
import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import type { Config } from '../config/config.js';
import type { Queries, Sql } from '../store/postgres.js';
import type { Who } from '../waiting/turns.js';
import { createIssuerKeys } from './issuer-keys.js';
import type { SessionOf } from './sessions.js';
import { createRemembered, turnsWithin } from './throttle.js';

export type SigningKey = ReturnType<typeof fromRow>;
export type SigningKeys = Awaited<ReturnType<typeof openSigningKeys>>;

/** A leaked key is worth something for a month at most. */
export const ROTATION_MS = 30 * 24 * 3600 * 1000;
/** A key is made so long before it signs: every node has reloaded twice by then, and so has every client that fetches our JWKS. */
export const ROTATION_AHEAD_MS = 15 * 60_000;
/** A key goes so long after its successor took over: its last token lived for 15 minutes, and clocks differ by less than the rest. */
export const RETIRED_KEY_MS = 3600_000;
/** How often each node reads the keys. */
export const KEYS_RELOAD_MS = 5 * 60_000;
/** Tokens with invented key ids cause no more questions to Postgres than one in this time. */
const UNKNOWN_KEY_RELOAD_MS = 1_000;
/** Any number will do that no other program uses on the same database. */
const ROTATION_LOCK = 5_749_281_699;

interface KeyRow {
  readonly id: string;
  readonly public_key: Buffer;
  readonly private_key: Buffer;
  readonly signs_from: Date;
}

/** Reads the keys, and makes the first one of a new database; nodes that start at once make one together. */
export async function openSigningKeys(sql: Sql, now: () => number) {
  let keys: readonly SigningKey[] = [];
  let running: Promise<void> | null = null;
  let reloadedAt = 0;

  async function load(): Promise<void> {
    const nowMs = now();
    reloadedAt = nowMs;
    let rows = await readRows(sql);
    if (isRotationDue(rows, nowMs)) rows = await rotate(sql, nowMs);
    keys = rows.map((row) => keys.find(({ id }) => id === row.id) ?? fromRow(row));
  }

  function reload(): Promise<void> {
    running ??= load().finally(() => {
      running = null;
    });
    return running;
  }

  const known = (kid: string): SigningKey | null => keys.find(({ id }) => id === kid) ?? null;

  await reload();
  return {
    current(): SigningKey {
      const nowMs = now();
      // The first key of a database was made by another node, whose clock may be ahead.
      const key = keys.findLast(({ signsFromMs }) => signsFromMs <= nowMs) ?? keys[0];
      if (key === undefined) throw new Error('There is no signing key');
      return key;
    },
    /** Whether it is known here, and not retired. */
    has: (kid: string): boolean => known(kid) !== null,
    /** By `kid`; null when there is none. One that isn't known here is looked for in Postgres, at most once a second. */
    async find(kid: string): Promise<SigningKey | null> {
      const key = known(kid);
      if (key !== null) return key;
      const isRecent = Math.abs(now() - reloadedAt) < UNKNOWN_KEY_RELOAD_MS;
      if (running === null && isRecent) return null;
      await reload();
      return known(kid);
    },
    /** Every key that tokens in use may be signed with, and the next one. */
    all: () => keys,
    /** Reads the keys anew and makes the next one when it is time to. */
    reload,
  };
}

function isRotationDue(rows: readonly KeyRow[], nowMs: number): boolean {
  const newest = rows.at(-1);
  return newest === undefined || newest.signs_from.getTime() + ROTATION_MS - ROTATION_AHEAD_MS <= nowMs;
}

/** Makes the next key, unless another node was first, and removes those that nobody's token needs; returns what there is then. */
async function rotate(sql: Sql, nowMs: number): Promise<KeyRow[]> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  return await sql.transaction('readCommitted', async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${ROTATION_LOCK})`;
    const before = await readRows(tx);
    if (!isRotationDue(before, nowMs)) return before;
    const signsFrom = new Date(before.length === 0 ? nowMs : nowMs + ROTATION_AHEAD_MS);
    await tx`
      INSERT INTO signing_keys (id, public_key, private_key, signs_from)
      VALUES (${uuidv7()}, ${publicKey.export({ type: 'spki', format: 'der' })},
        ${privateKey.export({ type: 'pkcs8', format: 'der' })}, ${signsFrom})`;
    await tx`
      DELETE FROM signing_keys k WHERE EXISTS (
        SELECT FROM signing_keys next
        WHERE next.signs_from > k.signs_from AND next.signs_from <= ${new Date(nowMs - RETIRED_KEY_MS)})`;
    return await readRows(tx);
  });
}

async function readRows(sql: Queries): Promise<KeyRow[]> {
  return [
    ...(await sql<KeyRow[]>`SELECT id, public_key, private_key, signs_from FROM signing_keys ORDER BY signs_from, id`),
  ];
}

function fromRow(row: KeyRow) {
  return {
    /** The `kid` of its tokens. */
    id: row.id,
    publicKey: createPublicKey({ key: row.public_key, type: 'spki', format: 'der' }),
    privateKey: createPrivateKey({ key: row.private_key, type: 'pkcs8', format: 'der' }),
    signsFromMs: row.signs_from.getTime(),
  };
}

/** Clocks of nodes may differ by so much: for `iat` and `nbf`, never for `exp`. */
const CLOCK_TOLERANCE_SECONDS = 30;
export type Verification =
  | ({ readonly outcome: 'own' } & SessionOf)
  /** Email is null unless the issuer says that it is verified. */
  | {
      readonly outcome: 'external';
      readonly issuer: string;
      readonly subject: string;
      readonly email: string | null;
      readonly expMs: number;
    }
  | { readonly outcome: 'expired' }
  | { readonly outcome: 'invalid' };

const invalid: Verification = { outcome: 'invalid' };
const expired: Verification = { outcome: 'expired' };

const claimChecks = (nowMs: number) => ({ currentDate: new Date(nowMs), clockTolerance: CLOCK_TOLERANCE_SECONDS });

/** The claims, or why there are none to believe. What isn't the library's refusal surfaces. */
async function verified(
  verify: () => Promise<{ payload: JWTPayload }>,
): Promise<JWTPayload | 'expired' | 'forged' | 'invalid'> {
  try {
    return (await verify()).payload;
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) return 'forged';
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

/** Ours have some 450 characters; those of issuers that put groups into them have thousands. Half of a header block. */
const TOKEN_CHARACTERS = 8 * 1024;

/** Header and claimed issuer, neither of them verified; null when it is no JWT. */
function readCompact(token: string): { readonly header: unknown; readonly claimedIssuer: unknown } | null {
  if (!isCompact(token)) return null;
  const [header, payload] = token.split('.').map(readJson);
  if (!isObject(header) || !isObject(payload)) return null;
  return { header, claimedIssuer: payload['iss'] };
}

/** RFC 7515 section 7.1, strictly: one spelling per token, for the library takes spaces, padding and loose bits as well. */
export function isCompact(token: string): boolean {
  if (token.length > TOKEN_CHARACTERS) return false;
  const segments = token.split('.');
  const isCanonical = (segment: string): boolean =>
    segment !== '' && Buffer.from(segment, 'base64url').toString('base64url') === segment;
  return segments.length === 3 && segments.every(isCanonical);
}

function readJson(segment: string): unknown {
  try {
    const bytes = Buffer.from(segment, 'base64url');
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    // Not UTF-8 or not JSON.
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Signatures that can be checked with a public key, by RFC 7518 and RFC 8037; no `none`, no HMAC. */
export const ISSUER_ALGORITHMS = [
  ...['EdDSA', 'Ed25519', 'ES256', 'ES384', 'ES512'],
  ...['PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'],
];
type TrustedIssuer = NonNullable<Config['trustedIssuer']>;

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

function createExternalVerifier(trusted: TrustedIssuer, now: () => number) {
  const findKey = createIssuerKeys(trusted.jwksUrl, now);

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

interface TokenOptions {
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
  const checks = turnsWithin(CHECKS, 'signInsBusy');
  // Apart from ours: an issuer whose keys don't come holds them up.
  const externalChecks = turnsWithin(CHECKS, 'signInsBusy');

  async function verifyOwn(token: string, header: unknown, who: Who): Promise<Verification> {
    const read = OwnHeader.safeParse(header);
    const key = read.success ? await keys.find(read.data.kid) : null;
    if (!read.success || key === null) return invalid;
    const options = { algorithms: ['EdDSA'], issuer, audience: AUDIENCE };
    const payload = await checks.run(who, () =>
      verified(() => jwtVerify(token, key.publicKey, { ...claimChecks(now()), ...options })),
    );
    if (payload === 'forged') known.set(token, forged, now() + FORGED_MS);
    if (typeof payload === 'string') return payload === 'expired' ? expired : invalid;
    const claims = OwnClaims.safeParse(payload);
    if (!claims.success || claims.data.exp - claims.data.iat > ACCESS_TOKEN_SECONDS) return invalid;
    // For some time longer: then it is known that it has expired.
    const untilMs = (claims.data.exp + ACCESS_TOKEN_SECONDS) * 1000;
    known.set(token, { kind: 'own', kid: read.data.kid, claims: claims.data }, untilMs);
    return ownVerification(claims.data, now());
  }

  /** Null: nothing is known of it. */
  function recall(token: string): Verification | null {
    const entry = known.get(token);
    switch (entry?.kind) {
      case 'forged':
        return invalid;
      case 'own':
        return keys.has(entry.kid) ? ownVerification(entry.claims, now()) : null;
      case 'external':
        return entry.verification;
      default:
        return null;
    }
  }

  return {
    mint: (session: SessionOf): Promise<string> => mint(session, keys.current(), { issuer, now }),
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
    recall(token: string): SessionOf | null {
      const recalled = recall(token);
      return recalled?.outcome === 'own' ? recalled : null;
    },
    /** RFC 7517: the public halves. */
    jwks: () => ({ keys: keys.all().map(publicHalf) }),
  };
}

async function mint(
  { userId, sessionId }: SessionOf,
  { id, privateKey }: ReturnType<SigningKeys['current']>,
  { issuer, now }: Pick<TokenOptions, 'issuer' | 'now'>,
): Promise<string> {
  const issuedAt = Math.floor(now() / 1000);
  return await new SignJWT({ sid: sessionId })
    .setProtectedHeader({ alg: 'EdDSA', kid: id, typ: 'JWT' })
    .setIssuer(issuer)
    .setAudience(AUDIENCE)
    .setSubject(userId)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + ACCESS_TOKEN_SECONDS)
    .sign(privateKey);
}

function publicHalf({ id, publicKey }: ReturnType<SigningKeys['current']>) {
  return { ...publicKey.export({ format: 'jwk' }), kid: id, use: 'sig', alg: 'EdDSA' };
}

function ownVerification({ sub, sid, iat, exp }: z.infer<typeof OwnClaims>, nowMs: number): Verification {
  return inTime({ iat, exp }, nowMs) ?? { outcome: 'own', userId: sub, sessionId: sid };
}
