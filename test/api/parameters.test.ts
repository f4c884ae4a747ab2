// Parameters that nobody knows, on every route, and the words in which they are refused.
import t from 'tap';
import { z } from 'zod';
import { API_KEY, startServer } from '../fixtures/server.js';
import { signIn } from '../fixtures/sign-in.js';

const UNKNOWN_ID = '00000000-0000-7000-8000-000000000000';
/** By path and method; without anything in `security` an operation is anybody's. */
const Operations = z.record(z.string(), z.looseObject({ security: z.array(z.unknown()).default([]) }));
const Paths = z.object({ paths: z.record(z.string(), Operations) });

const server = await startServer({ t });

interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
}

async function ask(path: string, sent: Sent = {}): Promise<{ status: number; body: string }> {
  const response = await fetch(`${server.url}${path}`, sent);
  return { status: response.status, body: await response.text() };
}

t.test('a parameter that nobody knows is a 400 on every route, after the credentials', async (t) => {
  const { accessToken } = await signIn(server.url);
  const headers = { Authorization: `Bearer ${accessToken}`, 'X-API-KEY': API_KEY };
  const { paths } = Paths.parse(JSON.parse((await ask('/openapi.json')).body));
  for (const [template, operations] of Object.entries(paths)) {
    const path = template.replaceAll(/\{[^}]*\}/g, UNKNOWN_ID);
    for (const [method, { security }] of Object.entries(operations)) {
      const sent = { method: method.toUpperCase() };
      for (const name of ['x', '__proto__']) {
        const asked = `${path}?${name}=1`;
        t.match(
          await ask(asked, { ...sent, headers }),
          { status: 400, body: method === 'head' ? '' : `unknown: ${name}` },
          `${method} ${asked}`,
        );
      }
      // Who may not ask is not told what can be asked for.
      if (security.length > 0)
        t.match(await ask(`${path}?x=1`, sent), { status: 401 }, `${method} ${path}, by a stranger`);
    }
  }
  t.match(await ask('/history?x=1'), { status: 200 }, 'a page may have what its program reads');
});

t.test('what is wrong with a field is said in words of our own', async (t) => {
  const { accessToken } = await signIn(server.url);
  const headers = { Authorization: `Bearer ${accessToken}`, 'Content-Type': 'application/json' };
  const post = (body: string | Uint8Array<ArrayBuffer>) => ask('/web/keys', { method: 'POST', headers, body });
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
  const scopes = '"scopes":["scan"],"expires":null';
  for (const [body, name] of [
    ['{"name":"a","name":"b"}', 'name'],
    [`{"name":"a",${scopes},"n\\u0061me":"a"}`, 'name'],
    ['{"name":"a","x":[{"y":1},{"y":1,"y" : 1}]}', 'y'],
    ['{"x":{"name":{}},"name":"{\\"name\\":","name":1}', 'name'],
  ] as const) {
    t.match(await post(body), { status: 400, body: `"message":"${name}: given twice"` }, body);
  }
  t.match(await post(Uint8Array.from(Buffer.from('{"name":"\xff"}', 'latin1'))), {
    status: 400,
    body: /The body is not UTF-8/,
  });
  t.match(await post(`{"name":"\\"a\\\\",${scopes}}`), { status: 201 }, 'quotes within texts');
  for (const query of ['size=0', 'size=x', 'page=-1', 'sort=x', 'size=201', 'infected=x']) {
    const answer = await ask(`/web/scans/stats?${query}`, { headers });
    t.match(answer, { status: 400 }, query);
    t.notMatch(answer.body, foreign, `${query}: ${answer.body}`);
  }
});
