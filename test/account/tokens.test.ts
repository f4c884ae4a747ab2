// Access tokens: what is minted is taken; what is known as an attack is not: by jwt_tool, Wycheproof, the tests of jose and RFC 8725, adapted to EdDSA.

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { compactVerify, createLocalJWKSet, EncryptJWT } from 'jose';
import t from 'tap';
import { z } from 'zod';
import {
  createTokens,
  openSigningKeys,
  type SigningKey,
  type Tokens,
  type Verification,
} from '../../src/account/tokens.js';
import { openPostgres } from '../../src/store/postgres.js';
import { base64url, ed25519Token, hmacToken, type Json, segmentsOf } from '../fixtures/jwt.js';
import { startPostgres } from '../fixtures/postgres.js';

const NOW_SECONDS = Math.floor(Date.UTC(2026, 10, 21, 9) / 1000);
const userId = '01900000-0000-7000-8000-0000000000ab';
const sessionId = '01900000-0000-7000-8000-0000000000cd';
const own: Verification = { outcome: 'own', userId, sessionId };
const invalid: Verification = { outcome: 'invalid' };
const expired: Verification = { outcome: 'expired' };

const postgres = await startPostgres({ t });
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

/** Tokens that must be refused as invalid. */
const attacks: Record<string, () => string[] | Promise<string[]>> = {
  'alg-none': () => [
    `${base64url({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    `${base64url({ ...head, alg: 'none' })}.${payload}.`,
  ],
  'alg-NONE': () => ['NONE', 'None', 'nOnE'].map((alg) => `${base64url({ alg, typ: 'JWT' })}.${payload}.`),
  'alg-none-with-signature': () => [`${base64url({ ...head, alg: 'none' })}.${payload}.${signature}`],
  'alg-missing': () => [without('alg')],
  'alg-null-type': () => [null, true, 0, ['EdDSA'], 'HS256', 'eddsa', 'EdDSA ', ''].map((alg) => signed({ alg })),
  'alg-not-in-allowlist': () => ['Ed25519', 'Ed448', 'ES256', 'RS256', 'PS256'].map((alg) => signed({ alg })),
  'alg-rs-to-hs-confusion-der': () =>
    publicForms(key.publicKey).flatMap((secret) => ['HS256', 'HS384', 'HS512'].map((alg) => hmac({}, secret, alg))),
  'sig-empty': () => [`${header}.${payload}.`],
  'sig-truncated-half': () => [`${header}.${payload}.${base64url(signatureBytes.subarray(0, 32))}`],
  'sig-appended-zero': () => [`${header}.${payload}.${base64url(Buffer.concat([signatureBytes, Buffer.alloc(1)]))}`],
  'sig-unused-bits': () => respellings(),
  'payload-modified': () => [
    `${header}.${base64url({ ...claims, sub: '01900000-0000-7000-8000-000000000009' })}.${signature}`,
  ],
  'component-missing': () => [
    `${payload}.${signature}`,
    `${header}.${signature}`,
    `${header}.${payload}`,
    '..',
    '',
    '.',
    `.${payload}.${signature}`,
    `${header}..${signature}`,
  ],
  'json-serialization': () => [JSON.stringify({ payload, protected: header, signature })],
  'hmac-common-secrets': () =>
    ['', 'secret', 'changeme', 'your_jwt_secret', 'your-256-bit-secret', 'password', 'sluice'].map((secret) =>
      hmac({}, secret),
    ),
  'jwk-embedded-oct': () => [
    hmac({ jwk: { kty: 'oct', k: 'AA' } }, Buffer.from([0])),
    ed25519Token({ ...head, jwk: strangerJwk }, claims, stranger.privateKey),
  ],
  'jku-ssrf': () =>
    ['http://169.254.169.254/', 'file:///etc/passwd', 'http://127.0.0.1:6379/'].flatMap((jku) => [
      signed({ jku }),
      signed({ x5u: jku }),
    ]),
  'x5c-self-signed': () => [
    ed25519Token(
      { ...head, x5c: [base64url(stranger.publicKey.export({ type: 'spki', format: 'der' }))] },
      claims,
      stranger.privateKey,
    ),
  ],
  'kid-absolute-dev-null': () => [
    hmac({ kid: '/dev/null' }),
    signed({ kid: '/dev/null' }),
    signed({ kid: '../../../../dev/null' }),
  ],
  'kid-blank': () => [hmac({ kid: '' }), signed({ kid: '' }), without('kid')],
  'kid-command': () => [signed({ kid: '|sleep 10' }), signed({ kid: `${key.id}; SELECT pg_sleep(10)` })],
  'kid-prototype': () => ['__proto__', 'constructor', 'toString'].map((kid) => signed({ kid })),
  'kid-huge': () => [signed({ kid: 'k'.repeat(3000) })],
  'crit-empty': () => [signed({ crit: [] })],
  'crit-listed-but-missing': () => [
    signed({ crit: ['exp'] }),
    signed({ crit: ['b64'], b64: true }),
    signed({ crit: ['b64'], b64: false }),
  ],
  'b64-false-without-crit': () => [signed({ b64: false }), signed({ b64: true })],
  'jwe-instead-of-jws': async () => [await jwe()],
  'nested-unsecured': () => [
    ed25519Token({ ...head, cty: 'JWT' }, `${base64url({ alg: 'none' })}.${payload}.`, key.privateKey),
  ],
  'typ-missing': () => [without('typ'), signed({ typ: 'at+jwt' }), signed({ typ: 'jwt' })],
  'header-invalid-utf8': () => [
    ed25519Token(notUtf8, claims, key.privateKey),
    ed25519Token(head, notUtf8, key.privateKey),
    withBadText(),
  ],
  'exp-string': () => [
    signed({}, { exp: '9999999999' }),
    signed({}, { exp: null }),
    signed({}, { exp: undefined }),
    signed({}, { iat: undefined }),
  ],
  'nbf-future': () => [
    signed({}, { nbf: NOW_SECONDS + 3600 }),
    signed({}, { nbf: NOW_SECONDS + 31 }),
    signed({}, { nbf: 'x' }),
  ],
  'iat-old': () => [
    signed({}, { iat: NOW_SECONDS - 10 * 365 * 86_400, exp: NOW_SECONDS + 900 }),
    signed({}, { exp: NOW_SECONDS + 86_400 }),
  ],
  'iss-array': () =>
    [
      ['https://sluice.example.org', 'evil'],
      ['https://sluice.example.org'],
      'https://evil.example',
      'https://sluice.example.org/',
      undefined,
    ].map((iss) => signed({}, { iss })),
  'aud-wrong': () => ['another-service', undefined, null, 1].map((aud) => signed({}, { aud })),
  'aud-substring': () =>
    ['evil-sluice-web', 'sluice-web.evil', 'sluice', ['sluice-web'], ['sluice-web', 'evil']].map((aud) =>
      signed({}, { aud }),
    ),
  'sub-other-type': () =>
    [1, true, null, [userId], { id: 1 }, '1 OR 1=1', '00001', userId.toUpperCase(), undefined].flatMap((value) => [
      signed({}, { sub: value }),
      signed({}, { sid: value }),
    ]),
  'payload-not-json': () =>
    ['not json', '', 'null', '[]', '"text"', `${JSON.stringify(claims)}x`].map((text) =>
      ed25519Token(head, text, key.privateKey),
    ),
  'payload-1MB': () => [signed({}, { more: 'x'.repeat(1024 * 1024) }), signed({}, { more: 'x'.repeat(8 * 1024) })],
  'refresh-token-as-access': () => ['A'.repeat(43)],
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
  t.strictSame(await tokens.verify(token, ['test']), own);
  t.strictSame(await tokens.verify(signed({}), ['test']), own, 'the attacks below start from a good one');
});

t.test('every attack is refused', async (t) => {
  for (const [id, make] of Object.entries(attacks)) {
    for (const [index, attack] of (await make()).entries()) {
      t.strictSame(await tokens.verify(attack, ['test']), invalid, `${id} ${index} ${attack.slice(0, 60)}`);
    }
  }
});

t.test('foreign keys, also under the name of ours', async (t) => {
  t.strictSame(await tokens.verify(ed25519Token(head, claims, stranger.privateKey), ['test']), invalid);
  const unknown = { ...head, kid: '01900000-0000-7000-8000-00000000000a' };
  t.strictSame(await tokens.verify(ed25519Token(unknown, claims, stranger.privateKey), ['test']), invalid);
  t.strictSame(await tokens.verify(ed25519Token(unknown, claims, key.privateKey), ['test']), invalid);
});

t.test('time: no tolerance for what has expired, thirty seconds for clocks that are ahead', async (t) => {
  t.teardown(() => {
    nowMs = NOW_SECONDS * 1000;
  });
  const at = async (seconds: number): Promise<Verification> => {
    nowMs = (NOW_SECONDS + seconds) * 1000;
    return await tokens.verify(token, ['test']);
  };
  t.strictSame(await at(899.999), own);
  t.strictSame(await at(900), expired);
  t.strictSame(await at(901), expired);
  t.strictSame(await at(100_000), expired);
  t.strictSame(await at(-30), own);
  t.strictSame(await at(-31), invalid);
  nowMs = NOW_SECONDS * 1000;
  t.strictSame(await tokens.verify(signed({}, { nbf: NOW_SECONDS + 30 }), ['test']), own);
  t.strictSame(await tokens.verify(signed({}, { exp: NOW_SECONDS - 1, iat: NOW_SECONDS - 900 }), ['test']), expired);
  t.strictSame(
    await tokens.verify(signed({}, { exp: NOW_SECONDS - 1, iat: NOW_SECONDS - 900, aud: 'x' }), ['test']),
    invalid,
  );
  const forged = `${header}.${base64url({ ...claims, exp: NOW_SECONDS - 1 })}.${signature}`;
  t.strictSame(await tokens.verify(forged, ['test']), invalid, 'what is not signed is not believed to have expired');
});

t.test('of claims that come twice the last one counts', async (t) => {
  const text = JSON.stringify(claims).replace('{', '{"sub":"01900000-0000-7000-8000-000000000009",');
  t.strictSame(await tokens.verify(ed25519Token(head, text, key.privateKey), ['test']), own);
});

const Jwk = z.looseObject({ kty: z.string() });

t.test('the published keys verify our tokens, and have no private half', async (t) => {
  const { keys: published } = tokens.jwks();
  t.match(published, [{ kty: 'OKP', crv: 'Ed25519', kid: key.id, use: 'sig', alg: 'EdDSA' }]);
  t.strictSame(Object.keys(published[0] ?? {}).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x']);
  const { payload } = await compactVerify(token, createLocalJWKSet({ keys: published.map((each) => Jwk.parse(each)) }));
  t.strictSame(JSON.parse(Buffer.from(payload).toString()), claims);
});

t.test("an issuer's keys that came while the clock was ahead are asked for again when it is right", async (t) => {
  const pair = generateKeyPairSync('ed25519');
  const issuer = 'https://id.example.org';
  let kid = 'a';
  const server = createServer((_request, response) => {
    const jwk = { ...pair.publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'EdDSA' };
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ keys: [jwk] }));
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const jwksUrl = `http://127.0.0.1:${Object(server.address()).port}/`;
  const both = createTokens(keys, {
    issuer: 'https://sluice.example.org',
    trusted: { issuer, jwksUrl, audience: 'sluice' },
    now,
  });
  const DAY_SECONDS = 86_400;
  const tokenOf = (id: string): string =>
    ed25519Token(
      { alg: 'EdDSA', kid: id },
      { iss: issuer, aud: 'sluice', sub: 'b', exp: NOW_SECONDS + 2 * DAY_SECONDS },
      pair.privateKey,
    );
  nowMs = (NOW_SECONDS + DAY_SECONDS) * 1000;
  t.teardown(() => {
    nowMs = NOW_SECONDS * 1000;
  });
  t.match(await both.verify(tokenOf('a'), ['a']), { outcome: 'external' });
  kid = 'b';
  t.same(await both.verify(tokenOf('b'), ['a']), { outcome: 'invalid' }, 'not at once');
  nowMs = NOW_SECONDS * 1000;
  t.match(await both.verify(tokenOf('b'), ['a']), { outcome: 'external' });
});

t.test(
  "an issuer's keys that could not be had while the clock was ahead are asked for when it is right again",
  async (t) => {
    const pair = generateKeyPairSync('ed25519');
    const issuer = 'https://id.example.org';
    let isDown = true;
    const server = createServer((_request, response) => {
      const jwk = { ...pair.publicKey.export({ format: 'jwk' }), kid: 'a', use: 'sig', alg: 'EdDSA' };
      response
        .writeHead(isDown ? 500 : 200, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ keys: [jwk] }));
    }).listen(0, '127.0.0.1');
    t.teardown(() => server.close());
    await once(server, 'listening');
    const jwksUrl = `http://127.0.0.1:${Object(server.address()).port}/`;
    const trusted = { issuer, jwksUrl, audience: 'sluice' };
    const both = createTokens(keys, { issuer: 'https://sluice.example.org', trusted, now });
    const DAY_SECONDS = 86_400;
    const exp = NOW_SECONDS + 2 * DAY_SECONDS;
    const foreign = ed25519Token(
      { alg: 'EdDSA', kid: 'a' },
      { iss: issuer, aud: 'sluice', sub: 'b', exp },
      pair.privateKey,
    );
    nowMs = (NOW_SECONDS + DAY_SECONDS) * 1000;
    t.teardown(() => {
      nowMs = NOW_SECONDS * 1000;
    });
    await t.rejects(both.verify(foreign, ['a']), { code: 'unavailable' });
    isDown = false;
    await t.rejects(both.verify(foreign, ['a']), { code: 'unavailable' }, 'not at once');
    nowMs = NOW_SECONDS * 1000;
    t.match(await both.verify(foreign, ['a']), { outcome: 'external', subject: 'b' });
  },
);

t.test('a key of the issuer that is none, or that nobody knows while it is down, is of that token alone', async (t) => {
  const pair = generateKeyPairSync('ed25519');
  const short = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const issuer = 'https://id.example.org';
  let isDown = false;
  const published = [
    { ...pair.publicKey.export({ format: 'jwk' }), kid: 'a' },
    { ...short.publicKey.export({ format: 'jwk' }), kid: 'short' },
    { kty: 'OKP', crv: 'Ed25519', x: 'AA', kid: 'unreadable' },
    { kid: 'nothing' },
  ];
  const server = createServer((_request, response) => {
    response.writeHead(isDown ? 500 : 200).end(JSON.stringify({ keys: published }));
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const trusted = { issuer, jwksUrl: `http://127.0.0.1:${Object(server.address()).port}/`, audience: 'sluice' };
  const both = createTokens(keys, { issuer: 'https://sluice.example.org', trusted, now });
  t.teardown(() => {
    nowMs = NOW_SECONDS * 1000;
  });
  let made = 0;
  const body = () => ({ iss: issuer, aud: 'sluice', sub: `${++made}`, exp: NOW_SECONDS + 86_400 });
  const verify = (kid: string) => both.verify(ed25519Token({ alg: 'EdDSA', kid }, body(), pair.privateKey), ['a']);
  const input = `${base64url({ alg: 'RS256', kid: 'short' })}.${base64url(body())}`;
  const weak = `${input}.${sign('sha256', Buffer.from(input), short.privateKey).toString('base64url')}`;
  t.match(await verify('a'), { outcome: 'external' });
  t.same(await both.verify(weak, ['a']), invalid);
  for (const kid of ['unreadable', 'nothing', 'unknown']) t.same(await verify(kid), invalid, kid);
  t.match(await verify('a'), { outcome: 'external' });
  isDown = true;
  nowMs += 60_000;
  await t.rejects(verify('unknown'), { code: 'unavailable' });
  t.match(await verify('a'), { outcome: 'external' }, 'what is known serves');
  nowMs += 600_000;
  await t.rejects(verify('a'), { code: 'unavailable' }, 'not for long');
  isDown = false;
  await t.rejects(verify('a'), { code: 'unavailable' }, 'which is not asked for again at once');
  nowMs += 5_000;
  t.match(await verify('a'), { outcome: 'external' });
});
