// Signing in, staying signed in and being thrown out, over the wire.
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { openRaw } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, mySessions, PASSWORD, post, readSignIn, refresh, signIn } from '../fixtures/sign-in.js';

const invalid = { status: 401, body: { error: 'Unauthorized', message: 'Access token invalid' } };
const missing = { status: 401, body: { error: 'Unauthorized', message: 'Access token missing' } };
const refreshInvalid = { status: 401, body: { error: 'Unauthorized', message: 'Refresh token invalid' } };
const crossSite = { status: 403, body: { error: 'Forbidden', message: 'Cross-site request refused' } };

t.test('one server', async (t) => {
  const { url, port, stop } = await startServer({ env: { REGISTRATION: 'open' } });
  t.teardown(() => stop());

  t.test('a sign-in gives an access token, a refresh token and the user', async (t) => {
    const answer = await post(`${url}/web/auth/login`, { email: ` ${EMAIL.toUpperCase()} `, password: PASSWORD });
    t.match(answer, {
      status: 200,
      body: {
        accessToken: String,
        expiresIn: 900,
        user: { email: EMAIL, name: 'Administrator', plan: 'BUSINESS', hourlyLimit: 10_000 },
      },
    });
    const { setCookies, accessToken, userId, sessionId } = readSignIn(answer);
    t.same(setCookies[0], `sluice_access=${accessToken}; Path=/; Max-Age=900; HttpOnly; SameSite=Strict`);
    t.match(setCookies[1], /^sluice_refresh=[\w-]{43}; Path=\/web\/auth; Max-Age=2592000; HttpOnly; SameSite=Strict$/);
    t.match(answer.body, { user: { id: userId, creationDate: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/ } });
    t.match(await mySessions(url, bearer(accessToken)), {
      status: 200,
      body: [{ id: sessionId, ipAddress: '127.0.0.1', userAgent: 'node', current: true }],
    });
    t.match(await mySessions(url, { Cookie: `theme=dark; sluice_access=${accessToken}` }), { status: 200 });
  });

  t.test('where a token is taken from, and where not', async (t) => {
    const one = (await signIn(url)).accessToken;
    const other = (await signIn(url)).accessToken;
    const cookie = `sluice_access=${one}`;
    t.match(await mySessions(url, {}), missing);
    t.match(await mySessions(url, { Cookie: 'other=1' }), missing);
    t.match(await ask(`${url}/web/users/me/sessions?access_token=${one}`), missing, 'not from the query');
    t.match(await mySessions(url, { ...bearer(one), Cookie: cookie }), { status: 200 }, 'the same twice');
    t.match(await mySessions(url, { ...bearer(other), Cookie: cookie }), invalid, 'header and cookie differ');
    t.match(await mySessions(url, { ...bearer('x'), Cookie: cookie }), invalid, 'no fall through to the cookie');
    t.match(await mySessions(url, { Authorization: 'Basic YTpi', Cookie: cookie }), invalid);
    t.match(await mySessions(url, { Cookie: `sluice_access=evil; ${cookie}` }), invalid, 'the cookie twice');
    t.match(await mySessions(url, { Cookie: `${cookie}; ${cookie}` }), invalid);
    t.match(await mySessions(url, { ...bearer(one), Cookie: `${cookie}; ${cookie}` }), invalid);
    for (const value of [`Bearer${one}`, 'Bearer', one, `Bearer\t${one}`, `Bearer ${one} ${one}`]) {
      t.match(await mySessions(url, { Authorization: value }), invalid, JSON.stringify(value).slice(0, 20));
    }
    for (const value of [`Bearer  ${one}`, `bearer ${one}`, `Bearer ${one} `]) {
      t.match(await mySessions(url, { Authorization: value }), { status: 200 }, JSON.stringify(value).slice(0, 20));
    }
    const keyed = await ask(`${url}/api/v1/scans`, { method: 'POST', headers: { 'X-API-KEY': one }, body: 'x' });
    t.same(keyed.body, { error: 'X-API-KEY INVALID' });
  });

  t.test('every 401 says how to authenticate', async (t) => {
    const challenge = async (answer: Promise<{ status: number; headers: Headers }>) => {
      const { status, headers } = await answer;
      t.equal(status, 401);
      return headers.get('www-authenticate');
    };
    const scan = (headers: Record<string, string>) =>
      challenge(ask(`${url}/api/v1/scans`, { method: 'POST', headers, body: 'x' }));
    const key = 'ApiKey realm="sluice", header="X-API-KEY"';
    t.equal(await scan({}), key);
    t.equal(await scan({ 'X-API-KEY': 'f'.repeat(32) }), key);
    t.equal(await challenge(mySessions(url, {})), 'Bearer realm="sluice"', 'no error where nothing was sent');
    t.equal(
      await challenge(mySessions(url, bearer('x'))),
      'Bearer realm="sluice", error="invalid_token", error_description="Access token invalid"',
    );
    t.equal(await challenge(ask(`${url}/web/scans`, { method: 'POST', body: 'x' })), 'Bearer realm="sluice"');
    t.equal(await challenge(refresh(url, 'x')), 'Bearer realm="sluice"');
    const login = { email: 'nobody@example.com', password: 'wrong' };
    t.equal(await challenge(post(`${url}/web/auth/login`, login)), 'Bearer realm="sluice"');
    const document = JSON.stringify((await ask(`${url}/openapi.json`)).body);
    t.match(document, '"WWW-Authenticate":{"description"');
  });

  t.test('a credential header that comes twice is refused before it is read', async (t) => {
    const { accessToken } = await signIn(url);
    for (const name of ['Authorization: Bearer ', 'Cookie: sluice_access=']) {
      const connection = await openRaw(port);
      const line = `${name}${accessToken}\r\n`;
      await connection.send(`GET /web/users/me/sessions HTTP/1.1\r\nHost: localhost\r\n${line}${line}\r\n`);
      t.match(await connection.answer(), { status: 400 }, name);
      await connection.closed();
      connection.end();
    }
  });

  t.test('a refresh token as an access token, and an access token as a refresh token', async (t) => {
    const { accessToken, refreshToken } = await signIn(url);
    t.match(await mySessions(url, bearer(refreshToken)), invalid);
    t.match(await mySessions(url, { Cookie: `sluice_access=${refreshToken}` }), invalid);
    t.match(await refresh(url, accessToken), refreshInvalid);
  });

  t.test('a refreshed session goes on; a stolen refresh token ends it for thief and owner', async (t) => {
    const first = await signIn(url);
    const second = readSignIn(await refresh(url, first.refreshToken));
    t.equal(second.sessionId, first.sessionId);
    t.match(await mySessions(url, bearer(second.accessToken)), { status: 200 });
    // A thief who comes within the time that a busy server stands still is taken for another tab.
    await delay(1_000);
    t.match(await refresh(url, first.refreshToken), refreshInvalid);
    t.match(await refresh(url, second.refreshToken), refreshInvalid);
    for (const { accessToken } of [first, second]) t.match(await mySessions(url, bearer(accessToken)), invalid);
    const answer = await refresh(url, first.refreshToken);
    t.same(answer.headers.getSetCookie(), [], 'the cookies of somebody else stay');
    t.match(await ask(`${url}/web/auth/refresh`, { method: 'POST' }), refreshInvalid);
  });

  t.test('a refresh whose answer was lost is sent again with its Idempotency-Key', async (t) => {
    const { refreshToken, sessionId } = await signIn(url);
    const again = (key: string) => refresh(url, refreshToken, { 'Idempotency-Key': key });
    t.match(await again('too short'), { status: 400, body: { message: /^Idempotency-Key: must be 16/ } });
    const [first, second] = [await again('a-random-one-of-ours'), await again('a-random-one-of-ours')].map(readSignIn);
    t.equal(second?.refreshToken, first?.refreshToken);
    t.equal(second?.sessionId, sessionId);
    t.equal((await mySessions(url, bearer(second?.accessToken ?? ''))).status, 200);
  });

  t.test('fifty refreshes with one token at once: one succeeds', async (t) => {
    const { refreshToken } = await signIn(url);
    const answers = await Promise.all(Array.from({ length: 50 }, () => refresh(url, refreshToken)));
    t.equal(answers.filter(({ status }) => status === 200).length, 1);
    t.equal(answers.filter(({ status }) => status === 401).length, 49);
  });

  t.test('signing out ends the session by either token, and whatever way the token is spelled', async (t) => {
    const byAccess = await signIn(url);
    const out = await ask(`${url}/web/auth/logout`, { method: 'POST', headers: bearer(byAccess.accessToken) });
    t.match(out, { status: 204, body: null });
    t.match(out.headers.getSetCookie(), [
      /^sluice_access=; Path=\/; Max-Age=0/,
      /^sluice_refresh=; Path=\/web\/auth; Max-Age=0/,
    ]);
    t.match(await mySessions(url, bearer(byAccess.accessToken)), invalid);
    t.match(await refresh(url, byAccess.refreshToken), refreshInvalid);
    const [header = '', payload = '', signature = ''] = byAccess.accessToken.split('.');
    const respelled = [
      `${header}.${payload}.${signature}=`,
      `${header}.${payload}.${signature}==`,
      `${header}.${payload}. ${signature}`,
      `${header}.${payload}.${signature.slice(0, -1)}${signature.endsWith('A') ? 'B' : `${signature.slice(-1)}`}`,
      `${header}=.${payload}.${signature}`,
    ];
    for (const token of respelled) {
      t.match(await mySessions(url, bearer(token)), { status: 401 }, token.slice(-20));
      t.match(await mySessions(url, { Cookie: `sluice_access=${token}` }), { status: 401 });
    }
    const byRefresh = await signIn(url);
    const cookie = { Cookie: `sluice_refresh=${byRefresh.refreshToken}` };
    t.match(await ask(`${url}/web/auth/logout`, { method: 'POST', headers: cookie }), { status: 204 });
    t.match(await mySessions(url, bearer(byRefresh.accessToken)), invalid);
    t.match(await ask(`${url}/web/auth/logout`, { method: 'POST' }), { status: 204 }, 'nobody signs out');
  });

  t.test('sessions are listed and ended by their owner alone', async (t) => {
    const [mine, other] = [await signIn(url), await signIn(url)];
    const eve = readSignIn(
      await post(`${url}/web/auth/register`, { email: 'eve@example.com', password: 'twelve letters', name: 'Eve' }),
    );
    const end = (by: string, path: string) =>
      ask(`${url}/web/users/me/sessions${path}`, { method: 'DELETE', headers: bearer(by) });
    t.match(await end(eve.accessToken, `/${mine.sessionId}`), { status: 404, body: { error: 'Not found' } });
    for (const id of ['x', '%00', `${mine.sessionId}0`, "'; DROP TABLE sessions; --"]) {
      t.match(await end(mine.accessToken, `/${encodeURIComponent(id)}`), { status: 404 }, id);
    }
    t.match(await end(mine.accessToken, `/${other.sessionId.toUpperCase()}`), { status: 204 });
    t.match(await end(mine.accessToken, `/${other.sessionId}`), { status: 404 });
    t.match(await mySessions(url, bearer(other.accessToken)), invalid);

    const third = await signIn(url);
    t.match(await end(mine.accessToken, '?keepCurrent=maybe'), {
      status: 400,
      body: { error: 'Bad request', message: 'keepCurrent: must be true or false' },
    });
    t.match(await end(mine.accessToken, '?keepCurrent=true'), { status: 204 });
    t.match(await mySessions(url, bearer(third.accessToken)), invalid);
    t.match((await mySessions(url, bearer(mine.accessToken))).body, [{ id: mine.sessionId, current: true }]);
    t.match(await end(mine.accessToken, ''), { status: 204 });
    t.match(await mySessions(url, bearer(mine.accessToken)), invalid, 'also the one that asked');
    t.match(await mySessions(url, bearer(eve.accessToken)), { status: 200 }, 'not those of others');
  });

  t.test("another site's page can't use the cookie", async (t) => {
    const { accessToken, refreshToken } = await signIn(url);
    const cookie = { Cookie: `sluice_access=${accessToken}; sluice_refresh=${refreshToken}` };
    const end = (headers: Record<string, string>) =>
      ask(`${url}/web/users/me/sessions/x`, { method: 'DELETE', headers });
    const foreign: Record<string, string>[] = [
      { Origin: 'https://evil.example' },
      { Origin: 'null' },
      { Origin: `http://127.0.0.1:${port + 1}` },
      { 'Sec-Fetch-Site': 'cross-site' },
      { 'Sec-Fetch-Site': 'same-site' },
      { 'Sec-Fetch-Site': 'cross-site', Origin: url },
    ];
    for (const headers of foreign) {
      t.match(await end({ ...cookie, ...headers }), crossSite, JSON.stringify(headers));
      t.match(
        await end({ ...bearer(accessToken), ...headers }),
        { status: 404 },
        'a bearer token is not sent by itself',
      );
      for (const path of ['login', 'refresh', 'logout', 'register']) {
        t.match(await post(`${url}/web/auth/${path}`, {}, { ...cookie, ...headers }), crossSite, path);
      }
      t.match(await mySessions(url, { ...cookie, ...headers }), { status: 200 }, 'reading changes nothing');
    }
    const own: Record<string, string>[] = [
      { Origin: url },
      { 'Sec-Fetch-Site': 'same-origin' },
      { 'Sec-Fetch-Site': 'none' },
      {},
    ];
    for (const headers of own) t.match(await end({ ...cookie, ...headers }), { status: 404 }, JSON.stringify(headers));
  });

  t.test("a form on another site's page can't scan with the cookie, and costs nothing", async (t) => {
    const { accessToken } = await signIn(url);
    const scan = (headers: Record<string, string>) => {
      const body = new FormData();
      body.set('file', new Blob(['x']), 'x.txt');
      return ask(`${url}/web/scans`, {
        method: 'POST',
        headers: { Cookie: `sluice_access=${accessToken}`, ...headers },
        body,
      });
    };
    await enoughOfTheHour();
    const before = (await scan({})).headers.get('x-ratelimit-remaining');
    const refused = await scan({ Origin: 'https://evil.example' });
    t.match(refused, crossSite);
    t.equal(refused.headers.get('x-ratelimit-remaining'), null);
    const { status, headers } = await scan({ Origin: url });
    t.equal(status, 200);
    t.equal(Number(headers.get('x-ratelimit-remaining')), Number(before) - 1);
  });

  t.test('registering', async (t) => {
    const account = { email: 'New@Example.com', password: 'a'.repeat(12) };
    const answer = await post(`${url}/web/auth/register`, account);
    t.match(answer, {
      status: 201,
      body: { user: { email: 'new@example.com', name: '', plan: 'FREE', hourlyLimit: 50 } },
    });
    t.match(await mySessions(url, bearer(readSignIn(answer).accessToken)), { status: 200 });
    t.match(await post(`${url}/web/auth/register`, { ...account, email: 'NEW@example.com' }), {
      status: 409,
      body: { error: 'Conflict', message: 'This e-mail address has an account' },
    });
    t.ok(await signIn(url, 'new@EXAMPLE.com', account.password));
    const wrong: [Record<string, unknown>, RegExp][] = [
      [{ ...account, password: 'a'.repeat(11) }, /^password: must have 12 to 128 characters$/],
      [{ ...account, password: 'a'.repeat(129) }, /^password: must have 12 to 128 characters$/],
      [{ ...account, password: 'ﷺ'.repeat(8) }, /^password: must have 12 to 128 characters$/],
      [{ ...account, email: 'no address' }, /^email: must be an e-mail address$/],
      [{ ...account, email: `${'a'.repeat(250)}@example.com` }, /^email: /],
      [{ ...account, email: 'a\u0000@example.com' }, /^email: /],
      [{ ...account, name: 'a\u0000' }, /^name: must not have control characters$/],
      [{ ...account, name: 'a'.repeat(101) }, /^name: must have at most 100 characters$/],
      [{ email: account.email }, /^password: /],
      [{ ...account, name: 1 }, /^name: /],
    ];
    for (const [body, message] of wrong) {
      t.match(await post(`${url}/web/auth/register`, body), { status: 400, body: { error: 'Bad request', message } });
    }
    const composed = { email: 'composed@example.com', password: 'zu\u0308rich zu\u0308rich' };
    t.match(await post(`${url}/web/auth/register`, composed), { status: 201 });
    t.ok(await signIn(url, composed.email, composed.password.normalize('NFC')), 'one password however it is composed');
  });

  t.test('the public keys are public, the private ones are not', async (t) => {
    const { body } = await ask(`${url}/.well-known/jwks.json`);
    t.match(body, { keys: [{ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', x: String, kid: String }] });
    t.notMatch(JSON.stringify(body), /"d"/);
  });

  t.test('a wrong body', async (t) => {
    const login = `${url}/web/auth/login`;
    t.match(await ask(login, { method: 'POST', body: 'email=a' }), { status: 415 });
    t.match(await post(login, []), { status: 400 });
    t.match(await post(login, { email: EMAIL }), { status: 400, body: { message: /^password: / } });
    t.match(await post(login, { email: EMAIL, password: 'x'.repeat(300_000) }), { status: 413 });
    t.match(await ask(login), { status: 405 });
  });
});

t.test('an unknown account and a wrong password get the same answer, and are throttled alike', async (t) => {
  const { url, stop } = await startServer();
  t.teardown(() => stop());
  const attempt = async (email: string) => {
    const { status, body, headers } = await post(
      `${url}/web/auth/login`,
      { email, password: 'wrong' },
      { 'X-Request-Id': 'same' },
    );
    const { date: _, ...rest } = Object.fromEntries(headers);
    return { status, body, headers: rest };
  };
  const known = [];
  const unknown = [];
  for (let n = 0; n < 12; n += 1) {
    known.push(await attempt(EMAIL));
    unknown.push(await attempt('nobody@example.com'));
  }
  t.strictSame(known.slice(0, 10), unknown.slice(0, 10));
  t.match(known[0], { status: 401, body: { error: 'Unauthorized', message: 'E-mail or password wrong' } });
  for (const { status, body, headers } of [...known.slice(10), ...unknown.slice(10)]) {
    t.match({ status, body }, { status: 429, body: { error: 'Too many attempts', message: 'Try again later' } });
    t.match(headers['retry-after'], /^([1-9]|[1-5][0-9]|60)$/);
  }
  t.match(
    await post(`${url}/web/auth/login`, { email: EMAIL, password: PASSWORD }),
    { status: 429 },
    'also the right password',
  );
  t.match(await post(`${url}/web/auth/register`, { email: 'a@example.com', password: PASSWORD }), {
    status: 403,
    body: { error: 'Forbidden', message: 'Registration is closed' },
  });
});
