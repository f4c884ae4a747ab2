// Signatures of an external issuer's tokens: for each algorithm one is right, and what is known to forge, respell or misuse one is refused.
//
// The families of attacks are those of Wycheproof's suite for JSON Web Signature; keys, tokens and signatures are made here.
import { constants, createHash, generateKeyPairSync, type KeyObject, privateEncrypt, sign } from 'node:crypto';
import { compactVerify, createLocalJWKSet } from 'jose';
import t from 'tap';
import { ISSUER_ALGORITHMS, isCompact } from '../../src/account/tokens.js';
import { base64url, hmacToken, type Json, segmentsOf } from '../fixtures/jwt.js';

interface Pair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const rsa: Pair = generateKeyPairSync('rsa', { modulusLength: 2048 });
const edwards: Pair = generateKeyPairSync('ed25519');
const curves: Readonly<Record<string, Pair>> = {
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ES384: generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  ES512: generateKeyPairSync('ec', { namedCurve: 'P-521' }),
};
const PAYLOAD = JSON.stringify({ sub: 'somebody' });

function pairOf(alg: string): Pair {
  return curves[alg] ?? (/^[PR]S/.test(alg) ? rsa : edwards);
}

function publicJwk(alg: string, changes: Json = {}): Json & { kty: string } {
  const { kty = '', ...rest } = pairOf(alg).publicKey.export({ format: 'jwk' });
  return { ...rest, kty, alg, use: 'sig', ...changes };
}

function signatureOf(alg: string, input: string, saltLength = Number(alg.slice(2)) / 8): Buffer {
  const { privateKey: key } = pairOf(alg);
  const bytes = Buffer.from(input);
  if (alg.startsWith('Ed')) return sign(null, bytes, key);
  const hash = `sha${alg.slice(2)}`;
  if (alg.startsWith('ES')) return sign(hash, bytes, { key, dsaEncoding: 'ieee-p1363' });
  if (alg.startsWith('RS')) return sign(hash, bytes, key);
  return sign(hash, bytes, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength });
}

/** Signed by `signedAs`, whatever the header says. */
function tokenOf(header: Json, payload = PAYLOAD, signedAs = String(header['alg'])): string {
  const input = `${base64url(header)}.${base64url(payload)}`;
  return `${input}.${base64url(signatureOf(signedAs, input))}`;
}

/** As createTokens does for a trusted issuer, but for the claims. */
async function verifies(token: string, jwk: Json & { kty: string }): Promise<boolean> {
  if (!isCompact(token)) return false;
  try {
    await compactVerify(token, createLocalJWKSet({ keys: [jwk] }), { algorithms: ISSUER_ALGORITHMS });
    return true;
  } catch {
    return false;
  }
}

function flipped(bytes: Buffer, index: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(index) ^ 1, index);
  return copy;
}

/** Changes of a right token that leave nothing of it to believe. */
function changedTokens(alg: string): Readonly<Record<string, string>> {
  const token = tokenOf({ alg });
  const [header, payload, signature] = segmentsOf(token);
  const bytes = Buffer.from(signature, 'base64url');
  const signedBy = (value: Buffer): string => `${header}.${payload}.${base64url(value)}`;
  return {
    'another header': `${base64url({ alg, typ: 'JWT' })}.${payload}.${signature}`,
    'another payload': `${header}.${base64url('{"sub":"somebody else"}')}.${signature}`,
    'the first byte of the signature': signedBy(flipped(bytes, 0)),
    'the last byte of the signature': signedBy(flipped(bytes, bytes.length - 1)),
    'a byte less': signedBy(bytes.subarray(0, -1)),
    'a zero behind': signedBy(Buffer.concat([bytes, Buffer.alloc(1)])),
    'a zero before': signedBy(Buffer.concat([Buffer.alloc(1), bytes])),
    'all zeros': signedBy(Buffer.alloc(bytes.length)),
    'no signature': `${header}.${payload}.`,
    'no signature and no dot': `${header}.${payload}`,
    'no payload': `${header}..${signature}`,
    'no header': `.${payload}.${signature}`,
    nothing: '',
    'dots alone': '..',
    'a fourth part': `${token}.${signature}`,
    'an empty fourth part': `${token}.`,
    'an empty payload, signed': tokenOf({ alg }, ''),
    padding: `${token}=`,
    'a blank in the signature': `${header}.${payload}.${signature.slice(0, 8)} ${signature.slice(8)}`,
    'a letter that base64url lacks': `${header}.${payload}.${signature.slice(0, 8)}!${signature.slice(8)}`,
    JSON: JSON.stringify({ protected: header, payload, signature }),
    'no algorithm': `${base64url({ alg: 'none' })}.${payload}.`,
    'no algorithm, and the signature': `${base64url({ alg: 'none' })}.${payload}.${signature}`,
    'the public key as a secret': hmacToken(
      { alg: 'HS256' },
      { sub: 'somebody' },
      pairOf(alg).publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    ),
  };
}

t.test('a right signature is accepted, whatever it signs', async (t) => {
  for (const alg of ISSUER_ALGORITHMS) {
    for (const payload of [PAYLOAD, 'a', '\0\0\0\0']) {
      t.ok(await verifies(tokenOf({ alg }, payload), publicJwk(alg)), `${alg} ${JSON.stringify(payload)}`);
    }
  }
});

t.test('a changed token is refused', async (t) => {
  for (const alg of ISSUER_ALGORITHMS) {
    for (const [name, token] of Object.entries(changedTokens(alg))) {
      t.notOk(await verifies(token, publicJwk(alg)), `${alg}: ${name}`);
    }
  }
});

t.test('a key has one algorithm', async (t) => {
  for (const alg of ISSUER_ALGORITHMS) {
    for (const other of ISSUER_ALGORITHMS.filter((each) => each !== alg)) {
      t.notOk(await verifies(tokenOf({ alg: other }), publicJwk(alg)), `a key for ${alg}, a token by ${other}`);
      // The two names of Ed25519 have the same signatures.
      if (alg.startsWith('Ed') && other.startsWith('Ed')) continue;
      t.notOk(await verifies(tokenOf({ alg }, PAYLOAD, other), publicJwk(alg)), `${other} that says it were ${alg}`);
    }
  }
});

t.test('a key for something else verifies nothing', async (t) => {
  for (const alg of ISSUER_ALGORITHMS) {
    const token = tokenOf({ alg });
    t.notOk(await verifies(token, publicJwk(alg, { use: 'enc' })), `${alg}: use`);
    t.notOk(await verifies(token, publicJwk(alg, { use: undefined, key_ops: ['encrypt'] })), `${alg}: key_ops`);
    const other = generateKeyPairSync('ed25519');
    const input = `${base64url({ alg, jwk: other.publicKey.export({ format: 'jwk' }) })}.${base64url(PAYLOAD)}`;
    const embedded = `${input}.${base64url(sign(null, Buffer.from(input), other.privateKey))}`;
    t.notOk(await verifies(embedded, publicJwk(alg)), `${alg}: the token brings its own key`);
  }
});

t.test('ECDSA: no pair of special numbers is a signature, and there is one form', async (t) => {
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const special = [0n, 1n, order - 1n, order, 2n ** 256n - 1n].map((value) => value.toString(16).padStart(64, '0'));
  const input = `${base64url({ alg: 'ES256' })}.${base64url(PAYLOAD)}`;
  const withSignature = (bytes: Buffer): Promise<boolean> =>
    verifies(`${input}.${base64url(bytes)}`, publicJwk('ES256'));
  for (const r of special) {
    for (const s of special) t.notOk(await withSignature(Buffer.from(r + s, 'hex')), `r ${r} s ${s}`);
  }
  t.notOk(await withSignature(sign('sha256', Buffer.from(input), pairOf('ES256').privateKey)), 'the form of DER');
});

/** DigestInfo of RFC 8017 section 9.2, in pieces: outer and inner sequence, name of the hash, NULL, head of the digest. */
const RIGHT_INFO = '3031 300d 0609608648016503040201 0500 0420';
const wrongInfos: Readonly<Record<string, string>> = {
  'another hash': '3031 300d 0609608648016503040202 0500 0420',
  'a changed node of the name': '3031 300d 0609608648016503050201 0500 0420',
  'a longer name': '3032 300e 060a60864801650304020100 0500 0420',
  'no name': '3026 3002 0500 0420',
  'no inner sequence': '3022 0420',
  'no outer sequence': '300d 0609608648016503040201 0500 0420',
  'the digest alone': '',
  'NULL with a content': '3032 300e 0609608648016503040201 050100 0420',
  'another tag for NULL': '3031 300d 0609608648016503040201 0600 0420',
  'another tag for the outer sequence': '3131 300d 0609608648016503040201 0500 0420',
  'another tag for the digest': '3031 300d 0609608648016503040201 0500 0520',
  'a long form of the outer length': '308131 300d 0609608648016503040201 0500 0420',
  'a long form of the inner length': '3032 30810d 0609608648016503040201 0500 0420',
  'a leading zero in a length': '30820031 300d 0609608648016503040201 0500 0420',
  'an indefinite length': '3080 300d 0609608648016503040201 0500 0420',
  'a length too small': '3030 300d 0609608648016503040201 0500 0420',
  'a length too large': '3032 300d 0609608648016503040201 0500 0420',
  'a length of 2^32 and more': '30850100000031 300d 0609608648016503040201 0500 0420',
  'an empty sequence before': '3033 3000 300d 0609608648016503040201 0500 0420',
};

t.test('RSASSA-PKCS1-v1_5: one encoding of the digest, and one number', async (t) => {
  const { privateKey: key } = rsa;
  const input = `${base64url({ alg: 'RS256' })}.${base64url(PAYLOAD)}`;
  const digest = createHash('sha256').update(input).digest();
  const withInfo = (info: string, behind = ''): Promise<boolean> => {
    const bytes = Buffer.concat([Buffer.from(info.replaceAll(' ', ''), 'hex'), digest, Buffer.from(behind, 'hex')]);
    const signature = privateEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, bytes);
    return verifies(`${input}.${base64url(signature)}`, publicJwk('RS256'));
  };
  t.ok(await withInfo(RIGHT_INFO), 'as it should be');
  for (const [name, info] of Object.entries(wrongInfos)) t.notOk(await withInfo(info), name);
  for (const behind of ['00', '0500', '3000'])
    t.notOk(await withInfo(RIGHT_INFO, behind), `${behind} behind the digest`);

  const modulus = BigInt(`0x${Buffer.from(String(publicJwk('RS256')['n']), 'base64url').toString('hex')}`);
  const right = BigInt(`0x${signatureOf('RS256', input).toString('hex')}`);
  for (const value of [0n, 1n, modulus - 1n, modulus, right + modulus]) {
    const hex = value.toString(16).padStart(512, '0');
    const signature = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex');
    t.notOk(await verifies(`${input}.${base64url(signature)}`, publicJwk('RS256')), `the number ${value % 1000n}`);
  }
});

t.test('RSASSA-PSS: the salt is as long as the hash', async (t) => {
  for (const alg of ['PS256', 'PS384', 'PS512']) {
    const input = `${base64url({ alg })}.${base64url(PAYLOAD)}`;
    const hashBytes = Number(alg.slice(2)) / 8;
    for (const saltBytes of [0, 1, hashBytes - 1, hashBytes + 1]) {
      const token = `${input}.${base64url(signatureOf(alg, input, saltBytes))}`;
      t.notOk(await verifies(token, publicJwk(alg)), `${alg}: ${saltBytes} bytes`);
    }
  }
});
