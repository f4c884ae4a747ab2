// POST /api/v1/scans without a form: the file as it is, or a URL as JSON or pairs; and forms with an input that was left empty.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { openRaw } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { type FormPart, formOf, postForm, upload } from '../fixtures/upload.js';

const LIMIT_BYTES = 10_485_760;
const run = promisify(execFile);
const origin = await startOrigin(({ send }) => send(response('hello')));
const server = await startServer({
  env: { URL_ALLOW_NETWORKS: '127.0.0.1/32', URL_PORTS: `80,443,${origin.port}`, UPLOAD_TIMEOUT_MS: '3000' },
});
const directory = temporaryFolder(t);
t.teardown(async () => {
  await server.stop();
  await origin.stop();
});

const scans = `${server.url}/api/v1/scans`;
const remote = `http://127.0.0.1:${origin.port}/some%20file.txt?x=1&y=2`;
const isFetched = {
  status: 200,
  body: { filename: 'some file.txt', extension: 'txt', sizeInBytes: 5, infected: false },
};

type Body = NonNullable<RequestInit['body']>;

async function send(body: Body | null, headers: Readonly<Record<string, string>>, query = '') {
  const answer = await fetch(scans + query, { method: 'POST', body, headers: { 'X-API-KEY': API_KEY, ...headers } });
  const fields: unknown = await answer.json();
  if (typeof fields !== 'object' || fields === null) throw new Error('No JSON object');
  return { status: answer.status, headers: answer.headers, body: fields };
}

const failed = (message: string, status = 400) => ({ status, body: { error: 'Scan failed', message } });
const wrong = (message: string | RegExp, status = 400) => ({ status, body: { message } });

t.test('a file as it is, with its name in a header or in the query', async (t) => {
  const types = [
    'application/octet-stream',
    'text/plain; charset=utf-8',
    'application/pdf',
    'multipart/mixed; boundary=x',
  ];
  for (const type of types) {
    const headers = { 'Content-Type': type, 'X-Filename': 'Report.PDF' };
    const clean = await send('hello', headers);
    t.match(
      clean,
      { status: 200, body: { filename: 'Report.PDF', extension: 'PDF', sizeInBytes: 5, infected: false } },
      type,
    );
    t.equal(clean.headers.get('x-scan-sha256'), createHash('sha256').update('hello').digest('hex'));
    t.match(await send(new Uint8Array(eicar()), headers), { status: 200, body: { infected: true } }, type);
  }
  const raw = { 'Content-Type': 'application/octet-stream' };
  const named = async (name: string) => await send('x', { ...raw, 'X-Filename': name });
  t.match(await named('na%C3%AFve%20%22x%22.txt'), { body: { filename: 'naïve "x".txt' } });
  t.match(await named('..%2F..%2fetc%2Fpasswd'), { body: { filename: 'passwd' } });
  t.match(await named('100%.txt'), { body: { filename: '100%.txt' } }, 'nothing that is encoded');
  t.match(await named('a%ffb.txt'), { body: { filename: 'a\ufffdb.txt' } });
  t.match(await named('a%00%0d%0ab.txt'), { body: { filename: 'ab.txt' } });
  for (const name of ['X-Filename', 'X-Metadata']) {
    const other = { ...raw, 'X-Filename': 'a.txt', [name]: 'na\u00efve.txt' };
    t.match(await send('x', other), wrong(`${name}: must be percent-encoded`), 'no byte gets lost in silence');
  }
  t.match(await send('x', raw, '?filename=na%C3%AFve+x.txt'), { status: 200, body: { filename: 'naïve x.txt' } });
});

t.test('a file as it is without a name, of no bytes, or over the limit', async (t) => {
  const raw = { 'Content-Type': 'application/octet-stream' };
  const named = { ...raw, 'X-Filename': 'a.bin' };
  t.match(await send('x', raw), failed('Filename is missing'));
  for (const name of ['', '%20', '..', '%2F', '%00']) {
    t.match(await send('x', { ...raw, 'X-Filename': name }), failed('Filename is missing'), name);
  }
  t.match(await send('x', named, '?filename=b.bin'), wrong('filename: given twice'));
  t.match(await send('x', raw, '?filename=a&filename=b'), wrong('filename: given twice'));
  t.match(await send('x', named, '?name=b.bin'), wrong('unknown: name'));
  t.match(await send('', named), failed('File is empty'));
  t.match(await send(null, named), failed('File is empty'));
  const content = new Uint8Array(LIMIT_BYTES + 1);
  t.match(await send(content.subarray(1), named), { status: 200, body: { sizeInBytes: LIMIT_BYTES } });
  t.match(await send(content, named), failed('File size exceeds limit: 10MB'));
  t.match(await send('x', { ...named, 'Content-Encoding': 'gzip' }), wrong('Expected no Content-Encoding', 415));
  t.match(await send('x', { ...named, 'Content-Range': 'bytes 0-0/2' }), wrong('the request has a Content-Range'));
  t.match(await send('x', named), { status: 200 });
});

t.test('curl sends a file as it is, whole or in chunks, and reads why a large one is refused', async (t) => {
  const small = join(directory, 'eicar.com');
  const large = join(directory, 'fifty.bin');
  writeFileSync(small, eicar());
  writeFileSync(large, Buffer.alloc(50 * 1024 * 1024, 'x'));
  const curl = async (file: string, ...options: string[]): Promise<unknown> => {
    const headers = [`X-API-KEY: ${API_KEY}`, 'Content-Type: application/octet-stream', 'X-Filename: a.com'];
    const common = ['-s', '--max-time', '30', ...headers.flatMap((header) => ['-H', header])];
    return JSON.parse((await run('curl', [...common, ...options, '--data-binary', `@${file}`, scans])).stdout);
  };
  for (const options of [[], ['-H', 'Expect: 100-continue'], ['-H', 'Transfer-Encoding: chunked']]) {
    t.match(await curl(small, ...options), { filename: 'a.com', infected: true }, options.join(' '));
    t.match(await curl(large, ...options), { message: 'File size exceeds limit: 10MB' }, options.join(' '));
  }
});

t.test('a URL as JSON', async (t) => {
  const json = { 'Content-Type': 'application/json' };
  const post = async (value: unknown, headers: Readonly<Record<string, string>> = json) =>
    await send(typeof value === 'string' ? value : JSON.stringify(value), headers);
  t.match(await post({ url: remote }), isFetched);
  t.match(await post({ url: remote }, { 'Content-Type': 'Application/JSON; charset=utf-8' }), isFetched);
  t.match(await post({}), failed('Either file or url is required'));
  t.match(await post({ url: null }), failed('Either file or url is required'));
  t.match(await post({ url: ' ' }), { status: 400, body: { message: /^URL rejected: / } });
  t.match(await post({ url: 'http://10.0.0.1/' }), { status: 400, body: { message: /^URL rejected: / } });
  t.match(await post({ url: 1 }), wrong('url: must be a text'));
  t.match(await post({ url: remote, file: 'x' }), wrong(/^file: must not be beside a URL/));
  t.match(await post({ url: remote, file: null }), isFetched);
  t.match(await post({ url: remote }, { ...json, 'X-Filename': 'ignored' }), isFetched, 'a URL has its own name');
  for (const text of ['', 'x', '[]', '"x"', '1', 'null', '{"url":}']) t.match(await post(text), { status: 400 }, text);
  t.match(await post('[]'), wrong('The body must be an object'));
  const twice = [`{"url":"http://10.0.0.1/","url":"${remote}"}`, `{"\\u0075rl":"http://10.0.0.1/","url":"${remote}"}`];
  for (const text of twice) t.match(await post(text), wrong('url: given twice'), text);
  t.match(await post({ url: `http://a.example/${'x'.repeat(9000)}` }), wrong(/^url: must be at most 8192 characters/));
  t.match(
    await post({ url: 'x'.repeat(40_000) }),
    wrong('Expected at most 32 KB: a body of this Content-Type names a URL, and a file needs another one', 413),
  );
  t.match(await send(Buffer.from('{"url":"http://a/\xff"}', 'latin1'), json), wrong('The body is not UTF-8'));
  t.match(await send('{}', json, '?filename=x'), wrong('filename: a URL has its own'));
  const { body } = await post({ url: remote });
  t.strictSame(Object.keys(body), [
    'filename',
    'extension',
    'sizeInBytes',
    'scanDurationMillis',
    'infected',
    'virusName',
  ]);
});

t.test('a URL as pairs', async (t) => {
  const post = async (text: string) => await send(text, { 'Content-Type': 'application/x-www-form-urlencoded' });
  t.match(await send(new URLSearchParams({ url: remote }), {}), isFetched);
  t.match(await post(`url=${encodeURIComponent(remote)}&`), isFetched);
  t.match(await post(''), failed('Either file or url is required'));
  t.match(await post('url=http%3A%2F%2F10.0.0.1%2F'), { status: 400, body: { message: /^URL rejected: / } });
  t.match(await post('url=a&url=b'), failed('Send one file per request'));
  t.match(await post(`url=${remote}`), wrong('unknown: y'), 'nothing of a URL gets lost in silence');
  t.match(await post('url=%zz'), wrong('The body is not percent-encoded UTF-8'));
  t.match(await post('url=%ff'), wrong('The body is not percent-encoded UTF-8'));
  const file = await send(Buffer.from('%PDF \xff', 'latin1'), { 'Content-Type': 'application/x-www-form-urlencoded' });
  t.match(file, wrong('a body of this Content-Type names a URL, and a file needs another one: The body is not UTF-8'));
});

t.test('what a form has beside its file or URL and was left empty is as if absent', async (t) => {
  const file: FormPart = ['file', new Blob(['hello']), 'a.txt'];
  const empty: FormPart = ['file', new Blob([]), ''];
  for (const blank of ['', ' ', '\t\r\n ']) {
    t.match(await postForm(server.url, formOf(['url', blank], file)), { status: 200, body: { filename: 'a.txt' } });
    t.match(await postForm(server.url, formOf(file, ['url', blank])), { status: 200, body: { filename: 'a.txt' } });
  }
  t.match(await postForm(server.url, formOf(empty, ['url', remote])), isFetched);
  t.match(await postForm(server.url, formOf(['url', remote], empty)), isFetched);
  t.match(await postForm(server.url, formOf(['file', ''], ['url', remote])), isFetched, 'as Swagger sends it');
  t.match(await postForm(server.url, formOf(['url', remote], ['file', ''])), isFetched, 'as Swagger sends it');
  t.match(await postForm(server.url, formOf(['file', ''])), failed('Either file or url is required'));
  t.match(await postForm(server.url, formOf(['file', ''], ['url', ''])), { status: 400 });
  t.match(await postForm(server.url, formOf(file, ['url', ' x'])), failed('Send either file or url, not both'));
  t.match(await postForm(server.url, formOf(['url', ' x'], file)), failed('Send either file or url, not both'));
});

t.test('a body that stops, or comes byte by byte', async (t) => {
  const head = (type: string, bytes: number): Buffer =>
    Buffer.from(
      `POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nX-API-KEY: ${API_KEY}\r\nX-Filename: a.txt\r\nContent-Type: ${type}\r\nContent-Length: ${bytes}\r\n\r\n`,
    );
  const early = await openRaw(server.port);
  await early.send(head('application/json', 32_769));
  t.match(await early.answer(), {
    status: 413,
    body: /^{"error":"Payload too large","message":"Expected at most 32 KB/,
  });
  early.end();
  const json = `{"url":"${remote}"}`;
  for (const [type, body, shown] of [
    ['application/json', json, /some file\.txt/],
    ['text/plain', 'hello', /a\.txt/],
  ] as const) {
    const connection = await openRaw(server.port);
    await connection.send(head(type, body.length));
    for (const byte of Buffer.from(body)) await connection.send(Uint8Array.of(byte));
    const answer = await connection.answer();
    t.equal(answer?.status, 200, type);
    t.match(answer?.body, shown);
    connection.end();
    const silent = await openRaw(server.port);
    await silent.send(head(type, 1000));
    await silent.send(Buffer.from(body));
    t.equal((await silent.answer())?.status, 408, type);
    silent.end();
  }
  t.equal((await upload(server.url, 'x')).status, 200);
});
