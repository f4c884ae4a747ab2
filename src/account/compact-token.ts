// The compact form of a JWT, read strictly before anything in it is believed: one spelling per token, and JSON on both sides of the dot.

/** Ours have some 450 characters; those of issuers that put groups into them have thousands. Half of a header block. */
const TOKEN_CHARACTERS = 8 * 1024;

export interface CompactToken {
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
