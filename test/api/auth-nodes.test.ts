// Signing in where several servers share one Postgres: what ends on one is refused by the other; forged tokens; no Postgres at all.
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import postgresDriver from 'postgres';
import t from 'tap';
import { z } from 'zod';
import { base64url, ed25519Token, hmacToken, segmentsOf } from '../fixtures/jwt.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, mySessions, PASSWORD, post, refresh, signIn } from '../fixtures/sign-in.js';

const invalid = { status: 401, body: { error: 'Unauthorized', message: 'Access token invalid' } };
const refreshInvalid = { status: 401, body: { error: 'Unauthorized', message: 'Refresh token invalid' } };
const crossSite = { status: 403, body: { error: 'Forbidden', message: 'Cross-site request refused' } };

function readJson(segment: string): Record<string, unknown> {
  return z.record(z.string(), z.unknown()).parse(JSON.parse(Buffer.from(segment, 'base64url').toString()));
}

t.test('two servers, one Postgres', async (t) => {
  const postgres = await startPostgres();
  const env = {
    DATABASE_URL: await postgres.database(),
    BOOTSTRAP_EMAIL: EMAIL,
    BASE_URL: 'https://sluice.example.org',
    TRUSTED_PROXIES: '127.0.0.0/8',
  };
  const [one, other] = await Promise.all([startServer({ t, env }), startServer({ t, env })]);

  t.test(
    'a token of one is accepted by the other, and a session that ends on one is refused by the other at once',
    async (t) => {
      for (let round = 0; round < 20; round += 1) {
        const { accessToken, refreshToken, sessionId } = await signIn(one.url);
        t.match(await mySessions(other.url, bearer(accessToken)), { status: 200 });
        const path = `${one.url}/web/users/me/sessions${round % 2 === 0 ? `/${sessionId}` : ''}`;
        t.match(await ask(path, { method: 'DELETE', headers: bearer(accessToken) }), { status: 204 });
        t.match(await mySessions(other.url, bearer(accessToken)), invalid);
        t.match(await mySessions(one.url, bearer(accessToken)), invalid);
        t.match(await refresh(other.url, refreshToken), refreshInvalid);
      }
      const keys = await Promise.all([one, other].map(({ url }) => ask(`${url}/.well-known/jwks.json`)));
      t.same(keys[0]?.body, keys[1]?.body, 'both started at once and have one key');
    },
  );

  t.test('every forged, expired or foreign token is refused with a 401 of the same form', async (t) => {
    const sql = postgresDriver(env.DATABASE_URL, { max: 1 });
    t.teardown(() => sql.end());
    const { accessToken, userId, sessionId } = await signIn(one.url);
    const [row] = await sql<{ private_key: Buffer; public_key: Buffer }[]>`
      SELECT private_key, public_key FROM signing_keys`;
    if (row === undefined) throw new Error('There is a signing key');
    const privateKey = createPrivateKey({ key: row.private_key, type: 'pkcs8', format: 'der' });
    const publicPem = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' });
    const segments = segmentsOf(accessToken);
    const [header, payload] = [readJson(segments[0]), readJson(segments[1])];
    const seconds = Math.floor(Date.now() / 1000);
    const signed = (head: object, claims: object): string =>
      ed25519Token({ ...header, ...head }, { ...payload, ...claims }, privateKey);
    const expired = { iat: seconds - 1000, exp: seconds - 100 };
    const refused: Record<string, string> = {
      'alg none': `${base64url({ ...header, alg: 'none' })}.${base64url(payload)}.`,
      'algorithm confusion': hmacToken({ ...header, alg: 'HS256' }, payload, publicPem.toString()),
      'algorithm confusion with the bytes': hmacToken({ ...header, alg: 'HS256' }, payload, row.public_key),
      'a foreign key': ed25519Token(header, payload, generateKeyPairSync('ed25519').privateKey),
      'an unknown kid': signed({ kid: sessionId }, {}),
      'wrong audience': signed({}, { aud: 'another-service' }),
      'wrong issuer': signed({}, { iss: 'https://evil.example' }),
      future: signed({}, { iat: seconds + 3600, exp: seconds + 4500 }),
      oversized: signed({}, { more: 'x'.repeat(8_000) }),
      'a session that never was': signed({}, { sid: '01900000-0000-7000-8000-0000000000cd' }),
      "somebody else's session": signed({}, { sub: '01900000-0000-7000-8000-0000000000ab' }),
      'another user, unsigned': accessToken.replace(/\..*\./, `.${base64url({ ...payload, sub: sessionId })}.`),
      'not a token': 'x',
    };
    t.match(await mySessions(one.url, bearer(signed({}, {}))), { status: 200 }, 'they start from a good one');
    for (const [name, token] of Object.entries(refused)) {
      for (const headers of [bearer(token), { Cookie: `sluice_access=${token}` }]) {
        const { status, body } = await mySessions(other.url, headers);
        t.strictSame({ status, body }, invalid, name);
      }
    }
    for (const headers of [bearer(signed({}, expired)), { Cookie: `sluice_access=${signed({}, expired)}` }]) {
      const { status, body } = await mySessions(other.url, headers);
      t.strictSame({ status, body }, { status: 401, body: { error: 'Unauthorized', message: 'Access token expired' } });
    }
    t.match(await mySessions(one.url, bearer(accessToken)), { status: 200, body: [{ id: sessionId }] }, userId);
  });

  t.test('behind https the cookies are secure, and its origin is the own one', async (t) => {
    const { accessToken, setCookies } = await signIn(one.url);
    for (const cookie of setCookies) t.match(cookie, /; Secure$/);
    const end = (origin: string) =>
      ask(`${one.url}/web/users/me/sessions/x`, {
        method: 'DELETE',
        headers: { Cookie: `sluice_access=${accessToken}`, Origin: origin },
      });
    t.match(await end('https://sluice.example.org'), { status: 404 });
    t.match(await end('http://sluice.example.org'), crossSite);
  });

  t.test('attempts are counted together, by the address that the proxy says', async (t) => {
    const attempt = (url: string, forwardedFor: string) =>
      post(
        `${url}/web/auth/login`,
        { email: 'who@example.com', password: 'wrong' },
        { 'X-Forwarded-For': forwardedFor },
      );
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      statuses.push((await attempt(n % 2 === 0 ? one.url : other.url, `10.9.8.${n}, 192.0.2.1`)).status);
    }
    t.same(statuses, [...Array.from({ length: 10 }, () => 401), 429, 429]);
    t.match(await attempt(one.url, '192.0.2.2'), { status: 401 });
  });

  t.test('without its Postgres the dashboard says so', async (t) => {
    const { accessToken, refreshToken } = await signIn(one.url);
    await postgres.stop();
    const answers = [
      await mySessions(one.url, bearer(accessToken)),
      await refresh(one.url, refreshToken),
      await post(`${one.url}/web/auth/login`, { email: EMAIL, password: PASSWORD }),
    ];
    for (const { status, body, headers } of answers) {
      t.match({ status, body }, { status: 503, body: { message: 'The account store is not reachable' } });
      t.ok(headers.get('retry-after'));
    }
  });
});
