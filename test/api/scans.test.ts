// POST /api/v1/scans for uploads: fields, headers, limits, and every row of the error table that concerns them (interface 4.1, 7, 8).
import { createHash, randomBytes } from 'node:crypto';
import t from 'tap';
import { compressors } from '../containers/packers.js';
import { gzip, nestedZip, tar, zip } from '../fixtures/archives.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { type FormPart, formOf, postForm, upload } from '../fixtures/upload.js';

const LIMIT_BYTES = 10_485_760;
const EICAR_NAME = 'Sluice.Test.EICAR.UNOFFICIAL';

/** Made before there are connections: those that are kept alive end while this takes seconds. */
const bomb = zip([{ name: 'zeros', content: Buffer.alloc(250 * 1024 * 1024) }]);
const server = await startServer({ t });

function sha256(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex');
}

t.test('a clean upload gets six fields in their order, and the headers of the contract', async (t) => {
  const before = Math.floor(Date.now() / 1000);
  const { status, headers, body } = await upload(server.url, 'hello', { filename: 'Report.final.PDF' });
  t.equal(status, 200);
  t.same(Object.keys(body), ['filename', 'extension', 'sizeInBytes', 'scanDurationMillis', 'infected', 'virusName']);
  t.match(body, { filename: 'Report.final.PDF', extension: 'PDF', sizeInBytes: 5, infected: false, virusName: null });
  t.ok(Number.isInteger(body['scanDurationMillis']));
  t.equal(headers.get('content-type'), 'application/json; charset=utf-8');
  t.match(headers.get('x-scan-id'), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  t.equal(headers.get('x-scan-sha256'), sha256('hello'));
  t.match(
    headers.get('x-scan-engine'),
    /^clamav\/\d+\.\d+\.\d+; signatures=\S+; built=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/,
  );
  t.equal(headers.get('x-scan-cache'), 'MISS');
  t.equal(headers.get('x-ratelimit-limit'), '10000');
  t.ok(Number(headers.get('x-ratelimit-remaining')) < 10_000);
  const reset = Number(headers.get('x-ratelimit-reset'));
  t.equal(reset % 3600, 0);
  t.ok(reset > before && reset <= before + 3601);
  t.match(headers.get('x-request-id'), /^[A-Za-z0-9._-]{1,128}$/);
});

t.test('an infected upload is a 200 with the name of the signature', async (t) => {
  const archives: Record<string, Buffer> = {
    'eicar.com': eicar(),
    'eicar-with-spaces.com': Buffer.concat([eicar(), Buffer.from(' \t\r\n\x1a')]),
    'eicar.zip': zip([{ name: 'eicar.com', content: eicar() }]),
    'eicar.tar.gz': gzip(tar([{ name: 'eicar.com', content: eicar() }])),
    'five-deep.zip': nestedZip(eicar(), 5),
  };
  for (const [filename, content] of Object.entries(archives)) {
    const { status, body } = await upload(server.url, content, { filename });
    t.match(
      { status, ...body },
      { status: 200, infected: true, virusName: EICAR_NAME, sizeInBytes: content.length },
      filename,
    );
  }
});

t.test('exactly the limit passes, one byte more is refused', async (t) => {
  const content = Buffer.alloc(LIMIT_BYTES + 1, 'x');
  const exact = await upload(server.url, content.subarray(0, LIMIT_BYTES));
  t.match({ status: exact.status, ...exact.body }, { status: 200, sizeInBytes: LIMIT_BYTES, infected: false });
  const over = await upload(server.url, content);
  t.equal(over.status, 400);
  t.strictSame(over.body, { error: 'Scan failed', message: 'File size exceeds limit: 10MB' });
});

t.test('every wrong form gets its row of the table, keeps its unit, and the next request is served', async (t) => {
  const file = (name = 'a.txt'): FormPart => ['file', new Blob(['content']), name];
  const cases: [string, FormData][] = [
    ['File is empty', formOf(['file', new Blob([]), 'a.txt'])],
    ['Filename is missing', formOf(file('  '))],
    ['Filename is missing', formOf(file('../..'))],
    ['Filename is missing', formOf(['file', 'text'])],
    ['Either file or url is required', formOf()],
    ['Either file or url is required', formOf(['note', 'x'])],
    ['Either file or url is required', formOf(['other', new Blob(['x']), 'a.txt'])],
    ['Send either file or url, not both', formOf(file(), ['url', 'http://example.com/'])],
    ['Send either file or url, not both', formOf(['url', 'http://example.com/'], file())],
    ['Send one file per request', formOf(file(), file('b.txt'))],
    ['Send one file per request', formOf(file(), ['other', new Blob(['x']), 'b.txt'])],
    ['Send one file per request', formOf(['url', 'http://a.example/'], ['url', 'http://b.example/'])],
  ];
  await enoughOfTheHour();
  for (const [message, data] of cases) {
    const before = await unitsLeft(server.url);
    const { status, headers, body } = await postForm(server.url, data);
    t.equal(status, 400, message);
    t.strictSame(body, { error: 'Scan failed', message });
    t.equal(headers.get('x-ratelimit-remaining'), String(before - 1), 'one unit');
    t.match(headers.get('x-scan-id'), /^[0-9a-f-]{36}$/);
  }
  t.equal((await upload(server.url, 'x')).status, 200);
});

t.test('a body of no type is refused', async (t) => {
  for (const type of [undefined, '', 'x', 'text/', ';']) {
    const response = await fetch(`${server.url}/api/v1/scans`, {
      method: 'POST',
      headers: { 'X-API-KEY': API_KEY, ...(type === undefined ? {} : { 'Content-Type': type }) },
      body: Buffer.from('x'),
    });
    t.equal(response.status, 415, String(type));
    t.strictSame(await response.json(), { error: 'Unsupported media type', message: 'Expected multipart/form-data' });
  }
});

t.test('a key is required, and must be one that lives', async (t) => {
  const missing = await upload(server.url, 'x', { key: null });
  t.equal(missing.status, 401);
  t.strictSame(missing.body, { error: 'X-API-KEY MISSING' });
  t.equal(missing.headers.get('x-ratelimit-limit'), null);
  for (const key of ['0'.repeat(32), API_KEY.toUpperCase(), `${API_KEY}0`, '*', 'x'.repeat(4000)]) {
    const invalid = await upload(server.url, 'x', { key });
    t.equal(invalid.status, 401, key.slice(0, 40));
    t.strictSame(invalid.body, { error: 'X-API-KEY INVALID' });
  }
  for (const name of ['x-api-key', 'X-Api-Key', 'X-API-KEY']) {
    const body = formOf(['file', new Blob(['x']), 'a']);
    const response = await fetch(`${server.url}/api/v1/scans`, { method: 'POST', headers: { [name]: API_KEY }, body });
    t.equal(response.status, 200, name);
  }
});

t.test('filenames are shown by the rules of the contract', async (t) => {
  const cases: [string, string, string][] = [
    ['archive.tar.gz', 'archive.tar.gz', 'gz'],
    ['.htaccess', '.htaccess', ''],
    ['README', 'README', ''],
    ['C:\\Users\\me\\bill.DOC', 'bill.DOC', 'DOC'],
    ['../../etc/passwd', 'passwd', ''],
    ['naïve ☃ 文件.txt', 'naïve ☃ 文件.txt', 'txt'],
    ['quo"te.txt', 'quo"te.txt', 'txt'],
    ['a\r\nb\u0007c.txt', 'abc.txt', 'txt'],
    [`${'😀'.repeat(300)}.txt`, `${'😀'.repeat(251)}.txt`, 'txt'],
  ];
  for (const [filename, shown, extension] of cases) {
    const { body } = await upload(server.url, 'x', { filename });
    t.match(body, { filename: shown, extension }, JSON.stringify(filename).slice(0, 60));
  }
});

t.test('a request id is taken over when it is a sane token', async (t) => {
  const sane = await fetch(`${server.url}/livez`, { headers: { 'X-Request-Id': 'order-7.scan_1' } });
  t.equal(sane.headers.get('x-request-id'), 'order-7.scan_1');
  const strange = await fetch(`${server.url}/livez`, { headers: { 'X-Request-Id': 'a b<script>' } });
  t.match(strange.headers.get('x-request-id'), /^[0-9a-f-]{36}$/);
});

t.test('unknown paths and methods', async (t) => {
  t.equal((await fetch(`${server.url}/nothing/here`)).status, 404);
  const wrong = await fetch(`${server.url}/api/v1/scans`, { method: 'PUT', headers: { 'X-API-KEY': API_KEY } });
  t.equal(wrong.status, 405);
  t.equal(wrong.headers.get('allow'), 'GET, HEAD, POST');
  t.strictSame(await wrong.json(), { error: 'Method not allowed', message: 'Allowed: GET, HEAD, POST' });
});

t.test('the engine gives up on content over its limits, and says so instead of clean', async (t) => {
  t.ok(bomb.length < LIMIT_BYTES);
  const { status, body, headers } = await upload(server.url, bomb, { filename: 'bomb.zip' });
  t.equal(status, 422);
  t.match(body, { error: 'Scan failed', message: /^Scan incomplete: engine limit exceeded: Max\w+$/ });
  t.match(headers.get('x-scan-id'), /^[0-9a-f-]{36}$/);
});

t.test('an encrypted member is said in a header', async (t) => {
  const content = zip([{ name: 'secret.txt', content: randomBytes(100), encrypted: true }]);
  const { status, body, headers } = await upload(server.url, content, { filename: 'secret.zip' });
  t.match({ status, ...body }, { status: 200, infected: false });
  t.equal(headers.get('x-scan-notice'), 'encrypted');
});

t.test(
  'containers that libclamav looks into in part are looked into, said to be truncated, or not clean',
  async (t) => {
    const text = randomBytes(4000);
    const { bz2, zst } = compressors;
    const parts = [text, eicar()].map((content) => bz2(tar([{ name: 'a', content }]).subarray(0, -1024)));
    const streams = await upload(server.url, Buffer.concat(parts), { filename: 'a.tar.bz2' });
    t.match({ status: streams.status, ...streams.body }, { status: 200, infected: true });
    const cut = await upload(server.url, zst(text).subarray(0, 3000), { filename: 'a.zst' });
    t.match({ status: cut.status, ...cut.body }, { status: 200, infected: false });
    t.equal(cut.headers.get('x-scan-notice'), 'truncated');
    const damaged = bz2(text).fill(0, 1000, 1100);
    const refused = await upload(server.url, damaged, { filename: 'a.bz2' });
    t.equal(refused.status, 422);
    t.match(refused.body, { error: 'Scan failed', message: 'Scan incomplete: damaged bzip2 data' });
  },
);

t.test('nothing that is secret reaches the log', async (t) => {
  await upload(server.url, 'the secret content of a file', { filename: 'a.txt' });
  const output = server.output();
  t.match(output, /"msg":"scan"/);
  t.notMatch(output, new RegExp(API_KEY));
  t.notMatch(output, /the secret content/);
  t.notMatch(output, /a password for tests/);
});
