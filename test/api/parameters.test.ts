// Parameters that nobody knows, on every route, and the words in which they are refused.
import t from 'tap';
import { API_KEY, startServer } from '../fixtures/server.js';
import { signIn } from '../fixtures/sign-in.js';

const server = await startServer();
t.teardown(() => server.stop());

interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

async function ask(path: string, sent: Sent = {}): Promise<{ status: number; body: string }> {
  const response = await fetch(`${server.url}${path}`, sent);
  return { status: response.status, body: await response.text() };
}

t.test('a parameter that nobody knows is a 400 on every route, after the credentials', async (t) => {
  const { accessToken } = await signIn(server.url);
  const headers = { Authorization: `Bearer ${accessToken}` };
  const signedIn = [
    '/web/keys/me',
    '/web/users/me',
    '/web/quota',
    '/web/quota/hours',
    '/web/scans/stats',
    '/web/scans/stats/daily',
    '/web/scans/stats/monthly',
  ];
  for (const name of ['x', '__proto__', 'constructor']) {
    const expected = { status: 400, body: new RegExp(`unknown: ${name}`) };
    for (const path of ['/livez', '/readyz', '/version', '/openapi.json', '/.well-known/jwks.json']) {
      t.match(await ask(`${path}?${name}=1`), expected, path);
    }
    for (const path of signedIn) {
      t.match(await ask(`${path}?${name}=1`, { headers }), expected, path);
      t.match(await ask(`${path}?${name}=1`), { status: 401 }, `${path} without a token`);
    }
    const scan = `/api/v1/scans?${name}=1`;
    t.match(await ask(scan, { method: 'POST', headers: { 'X-API-KEY': API_KEY } }), expected);
    t.match(await ask(scan, { method: 'POST' }), { status: 401 });
  }
  t.match(await ask('/history?x=1'), { status: 200 }, 'a page may have what its program reads');
});

t.test('what is wrong with a field is said in words of our own', async (t) => {
  const { accessToken } = await signIn(server.url);
  const headers = { Authorization: `Bearer ${accessToken}`, 'Content-Type': 'application/json' };
  const post = (body: string) => ask('/web/keys', { method: 'POST', headers, body });
  const foreign = /Invalid|Unrecognized|Too (big|small)|expected|zod/i;
  for (const [body, expected] of [
    ['{}', /name: is missing/],
    ['{"name":1}', /name: must be a text/],
    ['[]', /must be an object/],
    ['{"name":"a","x":1}', /unknown: x/],
    ['{"name":"a","__proto__":1}', /unknown: __proto__/],
  ] as const) {
    const answer = await post(body);
    t.match(answer, { status: 400, body: expected }, body);
    t.notMatch(answer.body, foreign, body);
  }
  for (const query of ['size=0', 'size=x', 'page=-1', 'sort=x', 'size=201', 'infected=x']) {
    const answer = await ask(`/web/scans/stats?${query}`, { headers });
    t.match(answer, { status: 400 }, query);
    t.notMatch(answer.body, foreign, `${query}: ${answer.body}`);
  }
});
