// Access tokens: what is minted is taken; what public suites know as an attack is not (shared/vectors beside the project, adapted to EdDSA).
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { compactVerify, createLocalJWKSet, EncryptJWT } from 'jose';
import t from 'tap';
import { z } from 'zod';
import { openSigningKeys, type SigningKey } from '../../src/account/signing-keys.js';
import { createTokens, type Judgement, type Tokens } from '../../src/account/tokens.js';
import { openPostgres } from '../../src/store/postgres.js';
import { base64url, ed25519Token, hmacToken, type Json, segmentsOf } from '../fixtures/jwt.js';
import { startPostgres } from '../fixtures/postgres.js';
import { readVectors } from '../fixtures/vectors.js';

const NOW_SECONDS = Math.floor(Date.UTC(2026, 10, 21, 9) / 1000);
const userId = '01900000-0000-7000-8000-0000000000ab';
const sessionId = '01900000-0000-7000-8000-0000000000cd';
const own: Judgement = { outcome: 'own', userId, sessionId };
const invalid: Judgement = { outcome: 'invalid' };
const expired: Judgement = { outcome: 'expired' };

const postgres = await startPostgres();
t.teardown(() => postgres.stop());
const store = await openPostgres({ kind: 'url', url: await postgres.database() });
t.teardown(() => store.close());

let nowMs = NOW_SECONDS * 1000;
const now = (): number => nowMs;
const keys = await openSigningKeys(store.sql, now);
const tokens: Tokens = createTokens(keys, { issuer: 'https://sluice.example.org', trusted: null, now });
const key: SigningKey = keys.current();
const token = await tokens.mint({ userId, sessionId });
const [header, payload, signature] = segmentsOf(token);
const Parsed = z.record(z.string(), z.unknown());
const head = Parsed.parse(JSON.parse(Buffer.from(header, 'base64url').toString()));
const claims = Parsed.parse(JSON.parse(Buffer.from(payload, 'base64url').toString()));

/** Signed by the right key: what only somebody who has it could make, or a careless version of ourselves. */
function signed(headChanges: Json, claimChanges: Json = {}): string {
  return ed25519Token({ ...head, ...headChanges }, { ...claims, ...claimChanges }, key.privateKey);
}

function without(name: string): string {
  return ed25519Token(
    Object.fromEntries(Object.entries(head).filter(([each]) => each !== name)),
    claims,
    key.privateKey,
  );
}

function hmac(changes: Json, secret: string | Buffer = '', alg = 'HS256'): string {
  return hmacToken({ ...head, alg, ...changes }, claims, secret);
}

function publicForms(publicKey: KeyObject): (string | Buffer)[] {
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const jwk = publicKey.export({ format: 'jwk' });
  const raw = Buffer.from(String(jwk.x), 'base64url');
  return [
    pem,
    pem.trimEnd(),
    publicKey.export({ type: 'spki', format: 'der' }),
    JSON.stringify(jwk),
    raw,
    String(jwk.x),
  ];
}

function jwe(): Promise<string> {
  return new EncryptJWT(claims).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).encrypt(new Uint8Array(32));
}

const stranger = generateKeyPairSync('ed25519');
const strangerJwk = stranger.publicKey.export({ format: 'jwk' });
const signatureBytes = Buffer.from(signature, 'base64url');
const notUtf8 = Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d]);

/** By the line's id: tokens that must be refused as invalid. */
const attacks: Record<string, () => string[] | Promise<string[]>> = {
  'jwt-001': () => [
    `${base64url({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    `${base64url({ ...head, alg: 'none' })}.${payload}.`,
  ],
  'jwt-003': () => ['NONE', 'None', 'nOnE'].map((alg) => `${base64url({ alg, typ: 'JWT' })}.${payload}.`),
  'jwt-005': () => [`${base64url({ ...head, alg: 'none' })}.${payload}.${signature}`],
  'jwt-007': () => [without('alg')],
  'jwt-009': () => [null, true, 0, ['EdDSA'], 'HS256', 'eddsa', 'EdDSA ', ''].map((alg) => signed({ alg })),
  'jwt-011': () => ['Ed25519', 'Ed448', 'ES256', 'RS256', 'PS256'].map((alg) => signed({ alg })),
  'jwt-013': () =>
    publicForms(key.publicKey).flatMap((secret) => ['HS256', 'HS384', 'HS512'].map((alg) => hmac({}, secret, alg))),
  'jwt-015': () => [`${header}.${payload}.`],
  'jwt-017': () => [`${header}.${payload}.${base64url(signatureBytes.subarray(0, 32))}`],
  'jwt-019': () => [`${header}.${payload}.${base64url(Buffer.concat([signatureBytes, Buffer.alloc(1)]))}`],
  'jwt-021': () => respellings(),
  'jwt-023': () => [`${header}.${base64url({ ...claims, sub: '01900000-0000-7000-8000-000000000009' })}.${signature}`],
  'jwt-025': () => [
    `${payload}.${signature}`,
    `${header}.${signature}`,
    `${header}.${payload}`,
    '..',
    '',
    '.',
    `.${payload}.${signature}`,
    `${header}..${signature}`,
  ],
  'jwt-027': () => [JSON.stringify({ payload, protected: header, signature })],
  'jwt-033': () =>
    ['', 'secret', 'changeme', 'your_jwt_secret', 'your-256-bit-secret', 'password', 'sluice'].map((secret) =>
      hmac({}, secret),
    ),
  'jwt-035': () => [
    hmac({ jwk: { kty: 'oct', k: 'AA' } }, Buffer.from([0])),
    ed25519Token({ ...head, jwk: strangerJwk }, claims, stranger.privateKey),
  ],
  'jwt-037': () =>
    ['http://169.254.169.254/', 'file:///etc/passwd', 'http://127.0.0.1:6379/'].flatMap((jku) => [
      signed({ jku }),
      signed({ x5u: jku }),
    ]),
  'jwt-039': () => [
    ed25519Token(
      { ...head, x5c: [base64url(stranger.publicKey.export({ type: 'spki', format: 'der' }))] },
      claims,
      stranger.privateKey,
    ),
  ],
  'jwt-041': () => [hmac({ kid: '/dev/null' }), signed({ kid: '/dev/null' }), signed({ kid: '../../../../dev/null' })],
  'jwt-043': () => [hmac({ kid: '' }), signed({ kid: '' }), without('kid')],
  'jwt-045': () => [signed({ kid: '|sleep 10' }), signed({ kid: `${key.id}; SELECT pg_sleep(10)` })],
  'jwt-047': () => ['__proto__', 'constructor', 'toString'].map((kid) => signed({ kid })),
  'jwt-049': () => [signed({ kid: 'k'.repeat(3000) })],
  'jwt-051': () => [signed({ crit: [] })],
  'jwt-053': () => [
    signed({ crit: ['exp'] }),
    signed({ crit: ['b64'], b64: true }),
    signed({ crit: ['b64'], b64: false }),
  ],
  'jwt-055': () => [signed({ b64: false }), signed({ b64: true })],
  'jwt-057': async () => [await jwe()],
  'jwt-059': () => [ed25519Token({ ...head, cty: 'JWT' }, `${base64url({ alg: 'none' })}.${payload}.`, key.privateKey)],
  'jwt-061': () => [without('typ'), signed({ typ: 'at+jwt' }), signed({ typ: 'jwt' })],
  'jwt-063': () => [
    ed25519Token(notUtf8, claims, key.privateKey),
    ed25519Token(head, notUtf8, key.privateKey),
    withBadText(),
  ],
  'jwt-067': () => [
    signed({}, { exp: '9999999999' }),
    signed({}, { exp: null }),
    signed({}, { exp: undefined }),
    signed({}, { iat: undefined }),
  ],
  'jwt-069': () => [
    signed({}, { nbf: NOW_SECONDS + 3600 }),
    signed({}, { nbf: NOW_SECONDS + 31 }),
    signed({}, { nbf: 'x' }),
  ],
  'jwt-071': () => [
    signed({}, { iat: NOW_SECONDS - 10 * 365 * 86_400, exp: NOW_SECONDS + 900 }),
    signed({}, { exp: NOW_SECONDS + 86_400 }),
  ],
  'jwt-073': () =>
    [
      ['https://sluice.example.org', 'evil'],
      ['https://sluice.example.org'],
      'https://evil.example',
      'https://sluice.example.org/',
      undefined,
    ].map((iss) => signed({}, { iss })),
  'jwt-075': () => ['another-service', undefined, null, 1].map((aud) => signed({}, { aud })),
  'jwt-077': () =>
    ['evil-sluice-web', 'sluice-web.evil', 'sluice', ['sluice-web'], ['sluice-web', 'evil']].map((aud) =>
      signed({}, { aud }),
    ),
  'jwt-079': () =>
    [1, true, null, [userId], { id: 1 }, '1 OR 1=1', '00001', userId.toUpperCase(), undefined].flatMap((value) => [
      signed({}, { sub: value }),
      signed({}, { sid: value }),
    ]),
  'jwt-083': () =>
    ['not json', '', 'null', '[]', '"text"', `${JSON.stringify(claims)}x`].map((text) =>
      ed25519Token(head, text, key.privateKey),
    ),
  'jwt-085': () => [signed({}, { more: 'x'.repeat(1024 * 1024) }), signed({}, { more: 'x'.repeat(8 * 1024) })],
  'jwt-087': () => ['A'.repeat(43)],
};

/** Lines about more than the token itself. */
const elsewhere: Record<string, string> = {
  'jwt-029':
    'we sign with Ed25519 alone; an issuer with ES256 is judged by the same library (issuer-signatures.test.ts)',
  'jwt-031': 'the same for RS256',
  'jwt-065': 'a test of its own below: an expired token is expired, without tolerance',
  'jwt-081': 'a test of its own below: the last value counts, everywhere',
  'jwt-089': 'access tokens are the only tokens that are signed',
  'jwt-091': 'test/api/auth.test.ts: sessions are listed and ended by their owner alone',
  'jwt-093': 'the session is asked for when a request starts; a scan that runs is not cut off',
  'jwt-095': 'test/api/auth-nodes.test.ts: a correctly signed token without a session',
  'jwt-097': 'endOtherSessions in sessions.test.ts; the change of a password calls it',
  'jwt-099': 'test/api/auth.test.ts: where a token is taken from, and where not',
  'jwt-101': 'the same',
  'jwt-103': 'the same',
  'jwt-105': 'the same',
  'jwt-107': "test/api/auth.test.ts: a form on another site's page can't scan with the cookie",
  'jwt-109': 'test/api/auth.test.ts: where a token is taken from, and where not',
  'jwt-111': 'test/api/auth-nodes.test.ts: every refusal has the same form',
};

/** The same bytes in other letters: loose low bits, padding, spaces, the other alphabet, line ends. */
function respellings(): string[] {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet.indexOf(signature.slice(-1));
  // 64 bytes leave four loose bits in the last letter.
  const loose = [1, 5, 15].map((bits) => `${signature.slice(0, -1)}${alphabet[last | bits] ?? ''}`);
  const spelled = [
    ...loose,
    `${signature}=`,
    `${signature}==`,
    ` ${signature}`,
    `${signature} `,
    `${signature}\n`,
    `${signature}?`,
  ];
  const other = signature.replace('-', '+').replace('_', '/');
  if (other !== signature) spelled.push(other);
  return [
    ...spelled.map((each) => `${header}.${payload}.${each}`),
    `${header}=.${payload}.${signature}`,
    `${header} .${payload}.${signature}`,
  ];
}

/** A header whose unknown member alone isn't UTF-8. */
function withBadText(): string {
  const text = Buffer.from(JSON.stringify({ ...head, kid: `${key.id}` }));
  return ed25519Token(
    Buffer.concat([text.subarray(0, -1), Buffer.from(',"x":"'), Buffer.from([0xff]), Buffer.from('"}')]),
    claims,
    key.privateKey,
  );
}

t.test('what is minted is taken, and says what it must', async (t) => {
  t.strictSame(head, { alg: 'EdDSA', kid: key.id, typ: 'JWT' });
  t.strictSame(claims, {
    iss: 'https://sluice.example.org',
    aud: 'sluice-web',
    sub: userId,
    sid: sessionId,
    iat: NOW_SECONDS,
    exp: NOW_SECONDS + 900,
  });
  t.strictSame(await tokens.judge(token), own);
  t.strictSame(await tokens.judge(signed({})), own, 'the attacks below start from a good one');
});

t.test('every attack is refused', async (t) => {
  for (const [id, make] of Object.entries(attacks)) {
    for (const [index, attack] of (await make()).entries()) {
      t.strictSame(await tokens.judge(attack), invalid, `${id} ${index} ${attack.slice(0, 60)}`);
    }
  }
});

t.test('every line of the public vectors is tried', async (t) => {
  const lines = readVectors('jwt.jsonl');
  if (lines === null) {
    t.pass('shared/vectors is absent: the table above stands for itself');
    return;
  }
  const ids = lines.map((line) => z.object({ id: z.string() }).parse(line).id);
  t.strictSame([...ids].sort(), [...Object.keys(attacks), ...Object.keys(elsewhere)].sort());
  for (const [id, why] of Object.entries(elsewhere)) t.comment(`${id}: ${why}`);
});

t.test('foreign keys, also under the name of ours', async (t) => {
  t.strictSame(await tokens.judge(ed25519Token(head, claims, stranger.privateKey)), invalid);
  const unknown = { ...head, kid: '01900000-0000-7000-8000-00000000000a' };
  t.strictSame(await tokens.judge(ed25519Token(unknown, claims, stranger.privateKey)), invalid);
  t.strictSame(await tokens.judge(ed25519Token(unknown, claims, key.privateKey)), invalid);
});

t.test('time: no tolerance for what has expired, thirty seconds for clocks that are ahead', async (t) => {
  t.teardown(() => {
    nowMs = NOW_SECONDS * 1000;
  });
  const at = async (seconds: number): Promise<Judgement> => {
    nowMs = (NOW_SECONDS + seconds) * 1000;
    return await tokens.judge(token);
  };
  t.strictSame(await at(899.999), own);
  t.strictSame(await at(900), expired);
  t.strictSame(await at(901), expired);
  t.strictSame(await at(100_000), expired);
  t.strictSame(await at(-30), own);
  t.strictSame(await at(-31), invalid);
  nowMs = NOW_SECONDS * 1000;
  t.strictSame(await tokens.judge(signed({}, { nbf: NOW_SECONDS + 30 })), own);
  t.strictSame(await tokens.judge(signed({}, { exp: NOW_SECONDS - 1, iat: NOW_SECONDS - 900 })), expired);
  t.strictSame(await tokens.judge(signed({}, { exp: NOW_SECONDS - 1, iat: NOW_SECONDS - 900, aud: 'x' })), invalid);
  const forged = `${header}.${base64url({ ...claims, exp: NOW_SECONDS - 1 })}.${signature}`;
  t.strictSame(await tokens.judge(forged), invalid, 'what is not signed is not believed to have expired');
});

t.test('of claims that come twice the last one counts', async (t) => {
  const text = JSON.stringify(claims).replace('{', '{"sub":"01900000-0000-7000-8000-000000000009",');
  t.strictSame(await tokens.judge(ed25519Token(head, text, key.privateKey)), own);
});

const Jwk = z.looseObject({ kty: z.string() });

t.test('the published keys verify our tokens, and have no private half', async (t) => {
  const { keys: published } = tokens.jwks();
  t.match(published, [{ kty: 'OKP', crv: 'Ed25519', kid: key.id, use: 'sig', alg: 'EdDSA' }]);
  t.strictSame(Object.keys(published[0] ?? {}).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x']);
  const { payload } = await compactVerify(token, createLocalJWKSet({ keys: published.map((each) => Jwk.parse(each)) }));
  t.strictSame(JSON.parse(Buffer.from(payload).toString()), claims);
});
