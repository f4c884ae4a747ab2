// The keys of the issuer that an operator trusts (RFC 7517), fetched when they are needed: kept for a while, asked for again for a key that is not known, and what is known serves while
// the issuer can't be asked.
import { type CryptoKey, createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose';
import { z } from 'zod';
import { Unavailable } from '../errors.js';
import { fetch } from '../http/fetch.js';
import { oneAtATime } from '../waiting/within.js';

/** How long they are waited for, kept, and not asked for again, after an answer and after a failure. */
const TIMEOUT_MS = 5_000;
const FRESH_MS = 10 * 60_000;
const COOLDOWN_MS = 30_000;
const FAILURE_COOLDOWN_MS = 5_000;
/** RFC 7518 sections 3.3 and 3.5: a smaller one MUST NOT be used. */
const RSA_BITS_LEAST = 2048;

/** What is wrong with one key is that key's alone: without a type it is nobody's. */
const Published = z.looseObject({ keys: z.array(z.looseObject({ kty: z.string().catch('') })) });
type Keys = ReturnType<typeof createLocalJWKSet>;

/** What finds the key of a token. It throws JOSEError for a token that has none that can be used, and Failure `unavailable` where that is not known. */
export function createIssuerKeys(url: string, now: () => number): JWTVerifyGetKey {
  let known: Keys | null = null;
  let loadedAt = Number.NEGATIVE_INFINITY;
  let failedAt = Number.NEGATIVE_INFINITY;

  // What lies ahead was noted before the clock was set back: that is no while ago.
  const isSince = (atMs: number, spanMs: number): boolean => now() >= atMs && now() < atMs + spanMs;

  const load = oneAtATime(async () => {
    try {
      const headers = { accept: 'application/json, application/jwk-set+json' };
      const answer = await fetch(url, { headers, redirect: 'manual', signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (answer.status !== 200) throw new Error(`The keys of the issuer: status ${answer.status}`);
      const keys = createLocalJWKSet(Published.parse(await answer.json()));
      [known, loadedAt] = [keys, now()];
      return keys;
    } catch (error) {
      failedAt = now();
      throw new Unavailable('issuerDown', { cause: error });
    }
  });

  async function reload(): Promise<Keys> {
    if (isSince(failedAt, FAILURE_COOLDOWN_MS)) throw new Unavailable('issuerDown');
    return await load();
  }

  return async (header, token) => {
    const find = (keys: Keys): Promise<CryptoKey> => usable(() => keys(header, token));
    try {
      return await find(known !== null && isSince(loadedAt, FRESH_MS) ? known : await reload());
    } catch (error) {
      // A new one, maybe. A failure of this question is that token's alone: anybody can name a key.
      if (!(error instanceof errors.JWKSNoMatchingKey) || isSince(loadedAt, COOLDOWN_MS)) throw error;
      return await find(await reload());
    }
  };
}

/** Throws JOSEError for a key that is none, or a weak one: what is published beside it serves all the same. */
async function usable(find: () => Promise<CryptoKey>): Promise<CryptoKey> {
  const key = await find().catch((cause: unknown) => {
    if (cause instanceof errors.JOSEError) throw cause;
    throw new errors.JWKInvalid('The key can not be read', { cause });
  });
  const { modulusLength: bits } = { modulusLength: undefined, ...key.algorithm };
  if (typeof bits === 'number' && bits < RSA_BITS_LEAST) throw new errors.JWKInvalid('The key is too short');
  return key;
}
