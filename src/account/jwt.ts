// What is read of any JWT, ours or an issuer's: the compact form, strictly, before anything in it is believed; and whether it is in time.
import { errors, type JWTPayload } from 'jose';

/** Clocks of nodes may differ by so much: for `iat` and `nbf`, never for `exp`. */
const CLOCK_TOLERANCE_SECONDS = 30;
export type Verification =
  | { readonly outcome: 'own'; readonly userId: string; readonly sessionId: string }
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

export const invalid: Verification = { outcome: 'invalid' };
export const expired: Verification = { outcome: 'expired' };

export function claimChecks(nowMs: number) {
  return { currentDate: new Date(nowMs), clockTolerance: CLOCK_TOLERANCE_SECONDS };
}

/** The claims, or why there are none to believe. What isn't the library's refusal surfaces. */
export async function verified(
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
export function inTime(
  { iat, exp }: { readonly iat: number; readonly exp: number },
  nowMs: number,
): Verification | null {
  const nowSeconds = nowMs / 1000;
  if (exp <= nowSeconds) return expired;
  return iat > nowSeconds + CLOCK_TOLERANCE_SECONDS ? invalid : null;
}

/** Ours have some 450 characters; those of issuers that put groups into them have thousands. Half of a header block. */
export const TOKEN_CHARACTERS = 8 * 1024;

interface CompactToken {
  readonly header: unknown;
  readonly claimedIssuer: unknown;
}

/** Header and claimed issuer, neither of them verified; null when it is no JWT. */
export function readCompact(token: string): CompactToken | null {
  if (!isCompact(token)) return null;
  const [header, payload] = token.split('.').map(readJson);
  if (!isObject(header) || !isObject(payload)) return null;
  return { header, claimedIssuer: payload['iss'] };
}

/** RFC 7515 section 7.1, strictly: one spelling per token, for the library takes spaces, padding and loose bits as well. */
export function isCompact(token: string): boolean {
  if (token.length > TOKEN_CHARACTERS) return false;
  const segments = token.split('.');
  return segments.length === 3 && segments.every(isCanonical);
}

function isCanonical(segment: string): boolean {
  return segment !== '' && Buffer.from(segment, 'base64url').toString('base64url') === segment;
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
