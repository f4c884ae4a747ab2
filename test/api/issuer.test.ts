// Access tokens of a third-party issuer, whose keys a real HTTP server publishes: whom they are here, and what they are not.
import { generateKeyPairSync, sign } from 'node:crypto';
import { createServer } from 'node:http';
import postgresDriver from 'postgres';
import t from 'tap';
import { base64url, hmacToken } from '../fixtures/jwt.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { bearer, EMAIL, mySessions, PASSWORD, post, signIn } from '../fixtures/sign-in.js';

const ISSUER = 'https://id.example.org';
const AUDIENCE = 'sluice-dashboard';
const invalid = { status: 401, body: { error: 'Unauthorized', message: 'Access token invalid' } };

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const other = generateKeyPairSync('rsa', { modulusLength: 2048 });

function token(claims: object, head: object = {}, key = rsa.privateKey): string {
  const seconds = Math.floor(Date.now() / 1000);
  const standard = { iss: ISSUER, aud: AUDIENCE, sub: 'someone', iat: seconds, exp: seconds + 3600 };
  const input = `${base64url({ alg: 'RS256', kid: 'one', typ: 'at+jwt', ...head })}.${base64url({ ...standard, ...claims })}`;
  return `${input}.${sign('sha256', Buffer.from(input), key).toString('base64url')}`;
}

/** Publishes the key, counts the requests for it, and can be made to fail. */
async function startIssuer(t: { teardown(undo: () => void): void }) {
  const issuer = { requests: 0, status: 200, url: '' };
  const keys = [{ ...rsa.publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' }];
  const server = createServer((_request, response) => {
    issuer.requests += 1;
    response.writeHead(issuer.status, { 'Content-Type': 'application/json' }).end(JSON.stringify({ keys }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port');
  issuer.url = `http://127.0.0.1:${address.port}/jwks`;
  return issuer;
}

t.test('a trusted issuer beside our own sign-in', async (t) => {
  const postgres = await startPostgres({ t });
  const issuer = await startIssuer(t);
  const env = {
    DATABASE_URL: await postgres.database(),
    BOOTSTRAP_EMAIL: EMAIL,
    JWT_ISSUER: ISSUER,
    JWT_AUDIENCE: AUDIENCE,
    JWT_JWKS_URL: issuer.url,
  };
  const closed = await startServer({ t, env });
  const open = await startServer({ t, env: { ...env, REGISTRATION: 'open' } });
  const ask = (claims: object, head: object = {}, key = rsa.privateKey) =>
    mySessions(closed.url, bearer(token(claims, head, key)));

  t.test('is whom a verified address says at first sight, and stays that', async (t) => {
    t.match(await ask({ sub: 'ada' }), invalid, 'without an address');
    t.match(await ask({ sub: 'ada', email: EMAIL }), invalid, 'that nobody verified');
    t.match(await ask({ sub: 'ada', email: EMAIL, email_verified: 'true' }), invalid);
    t.match(await ask({ sub: 'ada', email: 'nobody@example.com', email_verified: true }), invalid, 'no such account');
    const mine = await signIn(closed.url);
    const answer = await ask({ sub: 'ada', email: EMAIL.toUpperCase(), email_verified: true });
    t.match(answer, { status: 200, body: [{ id: mine.sessionId, current: false }] });
    t.match(await ask({ sub: 'ada' }), { status: 200 }, 'linked');
    t.match(await ask({ sub: 'ada', email: 'new@example.com', email_verified: true }), { status: 200 });
    t.match(await ask({ sub: 'eve' }), invalid, 'somebody else');
    t.match(await ask({ sub: mine.userId }), { status: 200 }, 'the id of an account needs no link');
    t.match(await ask({ sub: mine.userId.toUpperCase() }), invalid);
    t.match(await ask({ sub: mine.sessionId }), invalid);
    t.match(await mySessions(closed.url, bearer(mine.accessToken)), { status: 200 }, 'our own tokens go on');
  });

  t.test('puts no second factor in the place of one that is on', async (t) => {
    const sql = postgresDriver(env.DATABASE_URL, { max: 1 });
    await sql`UPDATE users SET totp_secret = '\\x00' WHERE email = ${EMAIL}`;
    const again = { currentPassword: PASSWORD };
    const path = `${closed.url}/web/users/me/two-factor`;
    t.match(await post(path, again, bearer(token({ sub: 'ada' }))), {
      status: 409,
      body: { message: /is on already/ },
    });
    await sql`UPDATE users SET totp_secret = NULL WHERE email = ${EMAIL}`;
    await sql.end();
  });

  t.test('gets an account where registration is open, once', async (t) => {
    const claims = { sub: 'new', email: 'new@example.com', email_verified: true };
    const answers = await Promise.all(Array.from({ length: 10 }, () => mySessions(open.url, bearer(token(claims)))));
    for (const { status, body } of answers) t.same({ status, body }, { status: 200, body: [] });
    t.match(await ask({ sub: 'new' }), { status: 200 });
  });

  t.test("does not open an account that was registered with somebody else's address, or changed to it", async (t) => {
    const squatter = { email: 'victim@example.com', password: 'a password for tests' };
    t.match(await post(`${open.url}/web/auth/register`, squatter), { status: 201 });
    const victim = { sub: 'victim', email: squatter.email, email_verified: true };
    t.match(await mySessions(open.url, bearer(token(victim))), invalid);
    const sql = postgresDriver(env.DATABASE_URL, { max: 1 });
    await sql`INSERT INTO users (id, email, name, plan) VALUES (gen_random_uuid(), 'insider@example.com', '', 'FREE')`;
    await sql`UPDATE users SET email = 'Insider@example.com', name = 'still the same' WHERE email = 'insider@example.com'`;
    const insider = { email: 'insider@example.com', email_verified: true };
    t.match(await mySessions(open.url, bearer(token({ ...insider, sub: 'insider' }))), { status: 200 });
    await sql`UPDATE users SET email = 'boss@example.com' WHERE email = 'Insider@example.com'`;
    await sql.end();
    const boss = { sub: 'boss', email: 'boss@example.com', email_verified: true };
    t.match(await mySessions(open.url, bearer(token(boss))), invalid);
  });

  t.test('must sign with its published key, an asymmetric algorithm, for us, in time', async (t) => {
    const seconds = Math.floor(Date.now() / 1000);
    const ada = { sub: 'ada' };
    t.match(await ask(ada), { status: 200 });
    t.match(await ask({ ...ada, aud: ['x', AUDIENCE] }), { status: 200 }, 'one of its audiences');
    t.match(await ask(ada, { typ: undefined }), { status: 200 });
    t.match(await ask(ada, {}, other.privateKey), invalid, 'a foreign key');
    t.match(await ask(ada, { kid: 'two' }), invalid, 'an unknown key');
    t.match(await ask({ ...ada, aud: 'x' }), invalid);
    t.match(await ask({ ...ada, aud: undefined }), invalid);
    t.match(await ask({ ...ada, iss: `${ISSUER}/` }), invalid);
    t.match(await ask({ ...ada, iss: [ISSUER] }), invalid);
    t.match(await ask({ ...ada, exp: undefined }), invalid);
    t.match(await ask({ ...ada, exp: seconds - 1 }), { status: 401, body: { message: 'Access token expired' } });
    t.match(await ask({ ...ada, nbf: seconds + 600 }), invalid);
    t.match(await ask({ ...ada, iat: seconds + 600 }), invalid);
    for (const sub of [undefined, null, 1, '', 'x'.repeat(256), 'a\u0000']) t.match(await ask({ sub }), invalid);
    t.match(await ask(ada, { crit: ['exp'], exp: 1 }), invalid);
    t.match(await ask(ada, { typ: 'dpop+jwt' }), invalid);
    const payload = { iss: ISSUER, aud: AUDIENCE, sub: 'ada', exp: seconds + 600 };
    const none = `${base64url({ alg: 'none', kid: 'one' })}.${base64url(payload)}.`;
    const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString();
    const confused = hmacToken({ alg: 'HS256', kid: 'one' }, payload, pem);
    for (const each of [none, confused]) t.match(await mySessions(closed.url, bearer(each)), invalid);
    // Signed by our own key, under the issuer's name; and by the issuer, under ours.
    t.match(await ask({ iss: 'sluice', aud: 'sluice-web' }), invalid);
  });

  t.test('is asked for its keys now and then, and when it does not answer that is said', async (t) => {
    t.ok(issuer.requests <= 4, `${issuer.requests} requests for some fifty tokens and two servers`);
    issuer.status = 500;
    const fresh = await startServer({ t, env });
    issuer.requests = 0;
    for (let n = 0; n < 20; n += 1) {
      const { status, body, headers } = await mySessions(fresh.url, bearer(token({ sub: 'ada' })));
      t.match({ status, body }, { status: 503, body: { message: 'The keys of the token issuer are not reachable' } });
      t.equal(headers.get('retry-after'), '5');
    }
    t.ok(issuer.requests < 10, 'not once for each of them');
    const { accessToken } = await signIn(fresh.url);
    t.match(await mySessions(fresh.url, bearer(accessToken)), { status: 200 }, 'our own tokens need no issuer');
  });
});
