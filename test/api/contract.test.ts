// What the contract says beside the verdict: who is asked first, what the history keeps of a failure, what the OpenAPI document promises.
import t from 'tap';
import { z } from 'zod';
import { makeAccount } from '../fixtures/another-account.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { ask, bearer, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { type FormPart, formOf, postForm, upload } from '../fixtures/upload.js';
import { uploadSignedIn } from '../fixtures/web-scans.js';

const server = await startServer({ t, env: { REGISTRATION: 'open', PLANS: 'TINY:1,BUSINESS:10000' } });
const { url } = server;
const { accessToken: token } = await signIn(url);

const Rows = z.object({
  content: z.array(z.object({ id: z.string(), filename: z.string(), error: z.string().nullable() })),
});

/** The row of a scan, once it has come to the database. */
async function rowOf(scanId: string | null) {
  return await until(async () => {
    const { status, body } = await ask(`${url}/web/scans/stats?size=200`, { headers: bearer(token) });
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
    return Rows.parse(body).content.find(({ id }) => id === scanId);
  });
}

t.test('everything under /api/ asks for the key first, and takes no unit for what is not there', async (t) => {
  await enoughOfTheHour();
  const before = await unitsLeft(url);
  const cases: [string, string, number][] = [
    ['GET', '/api/', 404],
    ['GET', '/api/v1', 404],
    ['POST', '/api/v1/scans/', 404],
    ['POST', '/api/v2/scans', 404],
    ['PUT', '/api/v1/scans', 405],
    ['DELETE', '/api/v1/scans', 405],
    ['OPTIONS', '/api/v1/scans', 405],
  ];
  for (const [method, path, status] of cases) {
    const asked = (headers: Record<string, string>) => ask(`${url}${path}`, { method, headers });
    const missing = await asked({});
    t.match(missing, { status: 401, body: { error: 'X-API-KEY MISSING' } }, `${method} ${path}`);
    t.strictSame(missing.body, { error: 'X-API-KEY MISSING' });
    t.ok(missing.headers.get('www-authenticate'));
    for (const key of ['f'.repeat(32), API_KEY.toUpperCase(), '*']) {
      t.strictSame((await asked({ 'X-API-KEY': key })).body, { error: 'X-API-KEY INVALID' });
    }
    const answer = await asked({ 'X-API-KEY': API_KEY });
    t.equal(answer.status, status);
    t.equal(answer.headers.get('allow'), status === 405 ? 'GET, HEAD, POST' : null);
    t.equal(answer.headers.get('x-ratelimit-limit'), null);
  }
  t.equal(await unitsLeft(url), before);
  t.equal((await ask(`${url}/apiary`)).status, 404, 'other paths are for anybody');
});

t.test('a deleted key is refused at once, and one without units is good enough', async (t) => {
  const other = await makeAccount(url, 'paths@example.com');
  const asked = async () => (await ask(`${url}/api/nothing`, { headers: { 'X-API-KEY': other.key } })).status;
  t.equal((await upload(url, 'x', { key: other.key })).status, 200);
  t.equal((await upload(url, 'x', { key: other.key })).status, 429);
  t.equal(await asked(), 404);
  t.equal(
    (await ask(`${url}/web/keys/${other.key}`, { method: 'DELETE', headers: bearer(other.accessToken) })).status,
    204,
  );
  t.equal(await asked(), 401);
});

t.test('the history has the filename of what was refused', async (t) => {
  const large = 'x'.repeat(10_485_760 + 1);
  const cases: [string, Awaited<ReturnType<typeof upload>>][] = [
    ['one-over.bin', await upload(url, large, { filename: 'one-over.bin' })],
    ['far-over.bin', await upload(url, 'x'.repeat(12_000_000), { filename: 'far-over.bin' })],
    ['empty.txt', await upload(url, '', { filename: 'folder/empty.txt' })],
  ];
  const file = (name: string): FormPart => ['file', new Blob(['x']), name];
  cases.push(['first.txt', await postForm(url, formOf(file('first.txt'), file('second.txt')))]);
  cases.push(['both.txt', await postForm(url, formOf(['url', 'http://192.0.2.1/x'], file('both.txt')))]);
  for (const [filename, { status, headers, body }] of cases) {
    t.equal(status, 400, filename);
    const row = await rowOf(headers.get('x-scan-id'));
    t.match(row, { filename, error: body['message'] });
  }
});

t.test('an upload that declares too much is refused when its name has come, and without', async (t) => {
  const connection = await openRaw(server.port);
  const body = filePart('content', 'huge.bin');
  await connection.send(scanRequest(body.subarray(0, -20), { 'Content-Length': '4000000000' }));
  const answer = await connection.answer();
  t.match(answer, { status: 400 });
  t.match(answer?.body, /File size exceeds limit: 10MB/);
  t.match(await rowOf(answer?.headers.get('x-scan-id') ?? null), { filename: 'huge.bin' });
  connection.end();
  const silent = await openRaw(server.port);
  await silent.send(scanRequest(new Uint8Array(), { 'Content-Length': '4000000000' }));
  t.match((await silent.answer())?.body, /File size exceeds limit: 10MB/, 'and also when not even that comes');
  silent.end();
});

t.test('boundaries and empty inputs as clients send them', async (t) => {
  const connection = await openRaw(server.port);
  const type = { 'Content-Type': 'multipart/form-data;boundary=*****' };
  const body = Buffer.from(filePart('hello', 'android.txt').toString('latin1').replaceAll('BOUNDARY', '*****'));
  await connection.send(scanRequest(body, type));
  t.match(JSON.parse((await connection.answer())?.body ?? ''), { filename: 'android.txt', sizeInBytes: 5 });
  connection.end();
  // As browsers do it: Node leaves an empty filename out.
  const send = async (path: string, ...parts: [string, string][]): Promise<unknown> => {
    const part = ([name, content]: [string, string]): string =>
      `--b\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n\r\n${content}\r\n`;
    return await ask(url + path, {
      method: 'POST',
      headers: {
        ...(path === '/web/scans' ? bearer(token) : { 'X-API-KEY': API_KEY }),
        'Content-Type': 'multipart/form-data; boundary=b',
      },
      body: `${parts.map(part).join('')}--b--\r\n`,
    });
  };
  for (const path of ['/api/v1/scans', '/web/scans']) {
    for (const parts of [
      [
        ['', ''],
        ['a.txt', 'hello'],
      ],
      [
        ['a.txt', 'hello'],
        ['', ''],
      ],
    ] satisfies [string, string][][]) {
      t.match(await send(path, ...parts), { status: 200, body: { filename: 'a.txt', sizeInBytes: 5 } });
    }
    t.match(await send(path, ['', '']), { status: 400, body: { message: 'Either file or url is required' } });
    t.match(await send(path, ['', 'x']), { status: 400, body: { message: 'Filename is missing' } });
  }
});

t.test('a sort direction is taken in any case, a field that is null as if it were absent', async (t) => {
  for (const direction of ['asc', 'ASC', 'Desc', 'dESC']) await t.resolves(rowsBy(`filename,${direction}`));
  t.match(await ask(`${url}/web/scans/stats?sort=filename,up`, { headers: bearer(token) }), { status: 400 });
  const auth = bearer(token);
  const put = (body: object) =>
    ask(`${url}/web/users/me`, {
      method: 'PUT',
      headers: { ...auth, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  t.match(await put({ name: 'Ada', email: null, newPassword: null, currentPassword: null }), {
    status: 200,
    body: { name: 'Ada' },
  });
  t.match(await put({ name: 'Ada', surname: null }), { status: 400, body: { message: /surname/ } });
  t.match(await post(`${url}/web/keys`, { name: null }, auth), { status: 400, body: { message: /^name: / } });
  const account = { email: 'null@example.com', password: 'twelve letters' };
  t.match(await post(`${url}/web/auth/register`, { ...account, name: null }), { status: 201 });
  t.match(await post(`${url}/web/billing/sync`, { checkoutSessionId: null }, auth), { status: 503 });
});

async function rowsBy(sort: string): Promise<void> {
  Rows.parse((await ask(`${url}/web/scans/stats?sort=${sort}`, { headers: bearer(token) })).body);
}

const HeaderObjects = z.record(z.string(), z.looseObject({}));
const Document = z.object({
  paths: z.record(
    z.string(),
    z.object({
      post: z
        .object({
          requestBody: z.unknown().optional(),
          responses: z.record(z.string(), z.object({ headers: HeaderObjects.optional() })),
        })
        .optional(),
    }),
  ),
});
/** Headers that the document tells of. */
/** Where there is something to say: libclamav has no type for a few bytes. */
const SOMETIMES = ['x-scan-notice', 'x-scan-type', 'accept-encoding', 'idempotent-replayed'];
const OWN = /^(x-request-id|x-ratelimit-|x-scan-|retry-after|accept-encoding|www-authenticate)/;

t.test('every answer of a scan route has the headers that the document says, and no others', async (t) => {
  const document = Document.parse((await ask(`${url}/openapi.json`)).body);
  const tiny = await makeAccount(url, 'document@example.com');
  const answers: [string, number, string[]][] = [];
  const keep = (path: string, { status, headers }: { status: number; headers: Headers }): void => {
    answers.push([path, status, [...headers.keys()]]);
  };
  const encodedForm = {
    method: 'POST',
    body: new FormData(),
    headers: { 'X-API-KEY': API_KEY, 'Content-Encoding': 'br' },
  };
  const noUrl = new FormData();
  noUrl.append('url', 'http://unknown.invalid.example.com/');
  for (const answer of [
    await upload(url, 'x'),
    await upload(url, ''),
    await upload(url, 'x', { key: null }),
    await fetch(`${url}/api/v1/scans`, encodedForm),
    await fetch(`${url}/api/v1/scans`, { method: 'POST', headers: { 'X-API-KEY': API_KEY } }),
    await postForm(url, noUrl),
    await upload(url, 'x', { key: tiny.key }),
    await upload(url, 'x', { key: tiny.key }),
  ]) {
    keep('/api/v1/scans', answer);
  }
  keep('/web/scans', await uploadSignedIn(url, token, 'x'));
  keep('/web/scans', await uploadSignedIn(url, token, ''));
  keep('/web/scans', await uploadSignedIn(url, tiny.accessToken, 'x'));
  keep('/web/scans', await uploadSignedIn(url, 'wrong', 'x'));
  t.strictSame([...new Set(answers.map(([, status]) => status))].sort(), [200, 400, 401, 415, 422, 429]);
  for (const [path, status, headers] of answers) {
    const documented = Object.keys(document.paths[path]?.post?.responses[status]?.headers ?? {}).map((name) =>
      name.toLowerCase(),
    );
    const sent = headers.filter((name) => OWN.test(name));
    t.strictSame(
      sent.filter((name) => !documented.includes(name)),
      [],
      `${path} ${status} says no more than is documented`,
    );
    const missing = documented.filter((name) => !sent.includes(name) && !SOMETIMES.includes(name));
    t.strictSame(missing, [], `${path} ${status} says all of it`);
  }
  for (const [path, { post: operation }] of Object.entries(document.paths)) {
    for (const [status, { headers = {} }] of Object.entries(operation?.responses ?? {})) {
      if (status === '503' || status === '429') t.ok(headers['Retry-After'], `${path} ${status}`);
      if (!/\/scans$/.test(path) || ['401', '403', '409', 'default'].includes(status)) continue;
      t.ok(
        headers['X-RateLimit-Limit'] && headers['X-RateLimit-Remaining'] && headers['X-RateLimit-Reset'],
        `${path} ${status}`,
      );
    }
  }
  t.notMatch(JSON.stringify(document.paths['/web/scans']?.post?.requestBody), /url/i, 'no url for who is signed in');
});

t.test('HEAD has the headers of GET, its length too, and no body', async (t) => {
  for (const path of ['/livez', '/nothing']) {
    const get = await fetch(`${url}${path}`);
    const head = await fetch(`${url}${path}`, { method: 'HEAD' });
    t.equal(head.status, get.status);
    t.equal(head.headers.get('content-length'), String((await get.arrayBuffer()).byteLength), path);
    t.equal((await head.arrayBuffer()).byteLength, 0);
  }
});
