// Signatures of a third-party issuer's tokens against Wycheproof (shared/vectors beside the project): judged as the suite has it, or stricter.
import { compactVerify, createLocalJWKSet } from 'jose';
import t from 'tap';
import { z } from 'zod';
import { isCompact } from '../../src/account/compact-token.js';
import { ISSUER_ALGORITHMS } from '../../src/account/tokens.js';
import { readVectors } from '../fixtures/vectors.js';

const Jwk = z.looseObject({ kty: z.string() });
const Wycheproof = z.object({
  id: z.string(),
  name: z.string(),
  key: Jwk,
  jws: z.string(),
  expect: z.enum(['verify', 'reject']),
});

/** Lines that we refuse although the suite verifies them; there is none the other way round. */
const stricter: Record<string, string> = {
  'wp-259': 'the payload is empty, so it is no JWT',
  'wp-264': 'as wp-259',
  'wp-268': 'as wp-259',
  'wp-272': 'as wp-259',
  'wp-320': 'as wp-259',
  'wp-325': 'as wp-259',
  'wp-346': 'the key is for PS256 and the signature PS384: a key has one algorithm',
  'wp-347': 'ES521 is no algorithm, and the key names it',
  'wp-350': 'as wp-346',
  'wp-351': 'as wp-347',
};

t.test('signatures of issuers are judged as Wycheproof has it', async (t) => {
  const lines = readVectors('jws-wycheproof.jsonl');
  if (lines === null) {
    t.pass('shared/vectors is absent: the attacks above stand for themselves');
    return;
  }
  const differences: string[] = [];
  let shared = 0;
  for (const line of lines.map((each) => Wycheproof.parse(each))) {
    const verifies = await verifiesAsIssuer(line.key, line.jws);
    if (verifies === (line.expect === 'verify')) continue;
    if (line.key.kty === 'oct' && !verifies) shared += 1;
    else differences.push(line.id);
  }
  t.strictSame(differences.sort(), Object.keys(stricter).sort());
  for (const [id, why] of Object.entries(stricter)) t.comment(`${id}: ${why}`);
  t.comment(`${shared} lines have a shared secret, which no issuer's token may be signed with`);
});

/** As createTokens does for a trusted issuer, but for the claims, which these vectors don't have. */
async function verifiesAsIssuer({ d: _, ...publicKey }: z.infer<typeof Jwk>, jws: string): Promise<boolean> {
  if (!isCompact(jws)) return false;
  try {
    await compactVerify(jws, createLocalJWKSet({ keys: [publicPart(publicKey)] }), { algorithms: ISSUER_ALGORITHMS });
    return true;
  } catch {
    return false;
  }
}

function publicPart(jwk: z.infer<typeof Jwk>): z.infer<typeof Jwk> {
  if (jwk.kty === 'oct') return jwk;
  const { p, q, dp, dq, qi, ...rest } = jwk;
  return rest;
}
