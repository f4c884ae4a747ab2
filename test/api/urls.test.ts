// POST /api/v1/scans with a url, over the wire: a real server, a hostile DNS server and origins on loopback, which it is allowed to reach.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { gzip } from '../fixtures/archives.js';
import { makeCertificate } from '../fixtures/certificate.js';
import { addressRecords, startDnsServer } from '../fixtures/dns-server.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { type OriginConnection, redirect, response, startOrigin } from '../fixtures/origin.js';
import { openRaw, type RawConnection, scanRequest } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { ask as askJson, bearer, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { formOf, postForm, type UploadAnswer, upload } from '../fixtures/upload.js';

const MIB = 1024 * 1024;
const LIMIT_BYTES = 10 * MIB;
const EICAR_NAME = 'Sluice.Test.EICAR.UNOFFICIAL';
const PER_USER = 8;

const authority = makeCertificate({ name: 'An authority of the tests', isAuthority: true });
const folder = temporaryFolder(t);
const authorityPath = join(folder, 'authority.pem');
writeFileSync(authorityPath, authority.cert);

/** What the origins answer, by path. */
const paths: Record<string, (connection: OriginConnection) => unknown> = {
  '/hello.txt': ({ send }) => send(response('hello')),
  '/silent': () => undefined,
  '/stalled': ({ send }) => send('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\ncontent'),
  '/stalled-large': ({ send }) => send(`HTTP/1.1 200 OK\r\nContent-Length: ${LIMIT_BYTES}\r\n\r\ncontent`),
};
const answer = (connection: OriginConnection): unknown =>
  (paths[connection.path.replace(/\?.*/, '')] ?? (({ send }) => send(response('content'))))(connection);

const origin = await startOrigin(answer);
const certificate = makeCertificate({
  name: 'files',
  hosts: ['files.example'],
  addresses: ['127.0.0.1'],
  issuer: authority,
});
const secure = await startOrigin(answer, certificate);
const expired = makeCertificate({ name: 'files', hosts: ['files.example'], issuer: authority, isExpired: true });
const secureExpired = await startOrigin(answer, expired);
const selfSigned = await startOrigin(answer, makeCertificate({ name: 'files', hosts: ['files.example'] }));
const addresses: Record<string, readonly string[]> = {
  'files.example': ['127.0.0.1'],
  'other.example': ['127.0.0.1'],
  'inside.example': ['127.0.0.2'],
  'mixed.example': ['127.0.0.1', '10.0.0.1'],
  'metadata.example': ['169.254.169.254'],
};
const dns = await startDnsServer((question) => {
  const known = addresses[question.name];
  return known === undefined ? { code: 3 } : addressRecords(question, known);
});
const server = await startServer({
  env: {
    URL_ALLOW_NETWORKS: '127.0.0.1/32',
    URL_DNS_SERVERS: dns.address,
    NODE_EXTRA_CA_CERTS: authorityPath,
    DOWNLOADS_PER_USER: String(PER_USER),
    DOWNLOAD_MEMORY_MB: '32',
    DOWNLOAD_TIMEOUT_MS: '20000',
  },
});
t.teardown(async () => {
  await server.stop();
  await Promise.all([origin, secure, secureExpired, selfSigned, dns].map((each) => each.stop()));
});

const BASE = `http://files.example:${origin.port}`;

async function scanUrl(url: string, of: TestServer = server): Promise<UploadAnswer> {
  return await postForm(of.url, formOf(['url', url]));
}

function urlForm(url: string): Buffer {
  return Buffer.from(`--BOUNDARY\r\nContent-Disposition: form-data; name="url"\r\n\r\n${url}\r\n--BOUNDARY--\r\n`);
}

/** Asks for a scan on a connection of its own, and doesn't wait for the answer. */
async function ask(url: string): Promise<RawConnection> {
  const connection = await openRaw(server.port);
  await connection.send(scanRequest(urlForm(url)));
  return connection;
}

t.test('content behind a URL gets the same six fields and headers as an upload', async (t) => {
  const { status, headers, body } = await scanUrl(`${BASE}/hello.txt?download=1#top`);
  t.equal(status, 200);
  t.same(Object.keys(body), ['filename', 'extension', 'sizeInBytes', 'scanDurationMillis', 'infected', 'virusName']);
  t.match(body, { filename: 'hello.txt', extension: 'txt', sizeInBytes: 5, infected: false, virusName: null });
  t.equal(headers.get('x-scan-sha256'), createHash('sha256').update('hello').digest('hex'));
  t.match(headers.get('x-scan-id'), /^[0-9a-f-]{36}$/);
  t.equal(headers.get('x-ratelimit-limit'), '10000');
  const head = origin.heads.at(-1) ?? '';
  t.match(head, /^GET \/hello.txt\?download=1 HTTP\/1.1\r\n/);
  t.match(head, /\r\nuser-agent: Sluice\/\d+\.\d+\.\d+\r\n/);
  t.notMatch(head, /0123456789abcdef|x-api-key|cookie|referer|authorization/i);
});

t.test('malware behind a URL is infected, by the name of the URL that was sent', async (t) => {
  paths['/eicar.com'] = ({ send }) => send(response(eicar()));
  paths['/latest%2Dbuild.exe'] = ({ send }) => send(redirect('/eicar.com'));
  paths['/packed.gz'] = ({ send }) => send(response(gzip(eicar()), 'Content-Encoding: gzip\r\n'));
  const expected = { status: 200, infected: true, virusName: EICAR_NAME };
  const direct = await scanUrl(`${BASE}/eicar.com`);
  t.match({ status: direct.status, ...direct.body }, { ...expected, filename: 'eicar.com', sizeInBytes: 68 });
  const moved = await scanUrl(`${BASE}/latest%2Dbuild.exe`);
  t.match({ status: moved.status, ...moved.body }, { ...expected, filename: 'latest-build.exe', extension: 'exe' });
  const packed = await scanUrl(`${BASE}/packed.gz`);
  t.match({ status: packed.status, ...packed.body }, { ...expected, sizeInBytes: gzip(eicar()).length }, 'as it is');
});

t.test('who is signed in scans a URL by a route of its own, which takes nothing else', async (t) => {
  const { accessToken } = await signIn(server.url);
  const scan = (body: unknown) => post(`${server.url}/web/url-scans`, body, bearer(accessToken));
  const { status, body, headers } = await scan({ url: `${BASE}/eicar.com` });
  t.match({ status, body }, { status: 200, body: { filename: 'eicar.com', infected: true, virusName: EICAR_NAME } });
  const row = await askJson(`${server.url}/web/scans/${headers.get('x-scan-id')}`, { headers: bearer(accessToken) });
  t.match(row.body, { url: `${BASE}/eicar.com`, key: null });
  t.match(await scan({ url: 'http://10.0.0.1/' }), { status: 400, body: { message: /^URL rejected/ } });
  const asForm = { method: 'POST', body: formOf(['url', `${BASE}/hello.txt`]), headers: bearer(accessToken) };
  t.match(await askJson(`${server.url}/web/url-scans`, asForm), {
    status: 415,
    body: { error: 'Unsupported media type', message: 'Expected application/json' },
  });
  const piece = { ...bearer(accessToken), 'Content-Type': 'application/json', 'Content-Range': 'bytes 0-1/2' };
  t.match(await askJson(`${server.url}/web/url-scans`, { method: 'POST', body: '{}', headers: piece }), {
    status: 400,
    body: { error: 'Bad request', message: 'the request has a Content-Range' },
  });
});

t.test('filenames are the last path segment that is not empty, or the host', async (t) => {
  const names: [string, string, string][] = [
    ['/a/b/report.final.PDF', 'report.final.PDF', 'PDF'],
    ['/a/b/', 'b', ''],
    ['/a//', 'a', ''],
    ['', 'files.example', ''],
    ['/', 'files.example', ''],
    ['/?file=x.exe', 'files.example', ''],
    ['/a/../c.txt', 'c.txt', 'txt'],
    ['/na%C3%AFve%20%E2%98%83.txt', 'naïve ☃.txt', 'txt'],
    ['/naïve.txt', 'naïve.txt', 'txt'],
    ['/a%0d%0ab%00.txt', 'ab.txt', 'txt'],
    ['/50%25.txt', '50%.txt', 'txt'],
    ['/50%.txt', '50%.txt', 'txt'],
    ['/%ff.txt', '\ufffd.txt', 'txt'],
    ['/..%2f..%2fetc%2fpasswd', 'passwd', ''],
    ['/%00', 'files.example', ''],
    [`/${'a'.repeat(300)}.txt`, `${'a'.repeat(251)}.txt`, 'txt'],
  ];
  for (const [path, filename, extension] of names) {
    const { status, body } = await scanUrl(BASE + path);
    t.match({ status, ...body }, { status: 200, filename, extension }, path);
  }
});

t.test(
  'what may not be fetched is a 400 with its reason, what could not be had a 422; each keeps its unit',
  async (t) => {
    const port = origin.port;
    paths['/away'] = ({ send }) => send(redirect('http://inside.example/'));
    paths['/loop'] = ({ send }) => send(redirect('/loop'));
    paths['/missing'] = ({ send }) => send(response('nothing here', '', '404 Not Found'));
    paths['/empty'] = ({ send }) => send(response(''));
    paths['/cut'] = async ({ send, end }) => {
      await send('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\ncontent');
      end();
    };
    paths['/ssh'] = ({ send }) => send('SSH-2.0-OpenSSH_9.2\r\n');
    paths['/declared'] = ({ send }) => send(`HTTP/1.1 200 OK\r\nContent-Length: ${LIMIT_BYTES + 1}\r\n\r\n`);
    paths['/streamed'] = async ({ send, end }) => {
      await send('HTTP/1.1 200 OK\r\n\r\n');
      await send(Buffer.alloc(LIMIT_BYTES + 1));
      end();
    };
    const closed = await startOrigin(() => undefined);
    await closed.stop();
    const TLS = 'Download failed: TLS failed, or the certificate is not valid for the host';
    const cases: [string, number, string][] = [
      ['   ', 400, 'URL rejected: blank URL'],
      ['ftp://files.example/a', 400, 'URL rejected: scheme is not http or https'],
      ['files.example/a', 400, 'URL rejected: scheme is not http or https'],
      [`http://user:hunter2@files.example:${port}/`, 400, 'URL rejected: credentials in the URL'],
      ['http://127.0.0.2/', 400, 'URL rejected: address is not public'],
      [`http://[::1]:${port}/`, 400, 'URL rejected: address is not public'],
      ['http://169.254.169.254/latest/meta-data/', 400, 'URL rejected: address is not public'],
      ['http://metadata.google.internal/', 400, 'URL rejected: host is not allowed'],
      ['http://metadata.example/', 400, 'URL rejected: address is not public'],
      ['http://mixed.example/', 400, 'URL rejected: address is not public'],
      ['http://inside.example/', 400, 'URL rejected: address is not public'],
      ['http://files.example:6379/', 400, 'URL rejected: port is not allowed'],
      [`${BASE}/away`, 400, 'URL rejected: address is not public'],
      [`${BASE}/loop`, 400, 'URL rejected: too many redirects'],
      [`${BASE}/declared`, 400, 'File size exceeds limit: 10MB'],
      [`${BASE}/streamed`, 400, 'File size exceeds limit: 10MB'],
      [`${BASE}/empty`, 400, 'File is empty'],
      ['http://nowhere.example/', 422, 'Download failed: the host name does not resolve'],
      [`http://files.example:${closed.port}/`, 422, 'Download failed: no connection to the host'],
      [`${BASE}/missing`, 422, 'Download failed: the origin answered with status 404'],
      [`${BASE}/cut`, 422, 'Download failed: the connection was lost before the end of the response'],
      [`${BASE}/ssh`, 422, 'Download failed: the response is not valid HTTP'],
      [`https://files.example:${selfSigned.port}/hello.txt`, 422, TLS],
      [`https://files.example:${secureExpired.port}/hello.txt`, 422, TLS],
      [`https://other.example:${secure.port}/hello.txt`, 422, TLS],
    ];
    await enoughOfTheHour();
    let left = await unitsLeft(server.url);
    for (const [url, status, message] of cases) {
      const { status: got, headers, body } = await scanUrl(url);
      t.equal(got, status, url);
      t.strictSame(body, { error: 'Scan failed', message });
      left -= 1;
      t.equal(headers.get('x-ratelimit-remaining'), String(left), 'one unit');
      t.match(headers.get('x-scan-id'), /^[0-9a-f-]{36}$/);
    }
    await server.printed(/(URL rejected: credentials in the URL)/);
    const output = server.output();
    t.notMatch(output, /hunter2/, 'credentials are not in the log');
  },
);

t.test('exactly the limit passes, declared or streamed', async (t) => {
  paths['/exact'] = ({ send }) => send(response(Buffer.alloc(LIMIT_BYTES, 'x')));
  paths['/exact-streamed'] = async ({ send, end }) => {
    await send('HTTP/1.0 200 OK\r\n\r\n');
    await send(Buffer.alloc(LIMIT_BYTES, 'x'));
    end();
  };
  for (const path of ['/exact', '/exact-streamed']) {
    const { status, body } = await scanUrl(BASE + path);
    t.match({ status, ...body }, { status: 200, sizeInBytes: LIMIT_BYTES, infected: false }, path);
  }
});

t.test('https is verified against the authorities of the machine, for names and for addresses', async (t) => {
  for (const host of ['files.example', '127.0.0.1']) {
    const { status, body } = await scanUrl(`https://${host}:${secure.port}/hello.txt`);
    t.match({ status, ...body }, { status: 200, sizeInBytes: 5 }, host);
  }
  const large = Buffer.alloc(LIMIT_BYTES, 'over TLS\n');
  paths['/large-over-tls'] = ({ send }) => send(response(large));
  const { headers, body } = await scanUrl(`https://files.example:${secure.port}/large-over-tls`);
  t.match(body, { sizeInBytes: LIMIT_BYTES });
  t.equal(headers.get('x-scan-sha256'), createHash('sha256').update(large).digest('hex'));
  paths['/down'] = ({ send }) => send(redirect(`${BASE}/hello.txt`));
  paths['/up'] = ({ send }) => send(redirect(`https://files.example:${secure.port}/hello.txt`));
  t.equal((await scanUrl(`https://files.example:${secure.port}/down`)).status, 200, 'a redirect may lead to http');
  t.equal((await scanUrl(`${BASE}/up`)).status, 200);
});

t.test(
  'a client that goes away ends its download, and gets no unit back: else others could be asked in our name without end',
  async (t) => {
    await enoughOfTheHour();
    const before = await unitsLeft(server.url);
    for (const path of ['/silent', '/stalled', '/stalled-large']) {
      for (const isReset of [false, true]) {
        const asked = origin.next();
        const client = await ask(BASE + path);
        const connection = await asked;
        if (isReset) client.socket.resetAndDestroy();
        else client.end();
        await connection.closed;
        t.pass(`${path} ${isReset ? 'reset' : 'closed'}: the origin sees its connection closed`);
      }
    }
    t.equal(await unitsLeft(server.url), before - 6);
    t.equal((await scanUrl(`${BASE}/hello.txt`)).status, 200);
  },
);

t.test('a request behind a URL that is being fetched ends it with the connection, and nothing else', async (t) => {
  const asked = origin.next();
  const client = await ask(`${BASE}/stalled`);
  const connection = await asked;
  await client.send(scanRequest(urlForm(`${BASE}/hello.txt`)));
  await connection.closed;
  await client.closed();
  client.end();
  t.equal((await scanUrl(`${BASE}/hello.txt`)).status, 200);
});

t.test('an account has so many downloads at once; the next one gets 503 and its unit back', async (t) => {
  await enoughOfTheHour();
  const clients: RawConnection[] = [];
  for (let index = 0; index < PER_USER; index += 1) {
    const asked = origin.next();
    clients.push(await ask(`${BASE}/stalled`));
    await asked;
  }
  const before = await unitsLeft(server.url);
  const { status, headers, body } = await scanUrl(`${BASE}/hello.txt`);
  t.match({ status, ...body }, { status: 503, message: 'Too many downloads of this account at once' });
  t.ok(Number(headers.get('retry-after')) >= 1);
  t.equal(headers.get('x-ratelimit-remaining'), String(before));
  t.equal((await scanUrl('ftp://files.example/')).status, 400, 'a wrong URL is answered first');
  t.equal((await upload(server.url, Buffer.alloc(LIMIT_BYTES, 'x'))).status, 200, 'uploads go on');
  for (const client of clients) client.end();
  await until(() => origin.open === 0);
  t.equal((await scanUrl(`${BASE}/hello.txt`)).status, 200);
});

t.test('a form with a url and something else', async (t) => {
  const form = formOf(['note', 'x'], ['url', `${BASE}/hello.txt`]);
  t.equal((await postForm(server.url, form)).status, 200, 'other fields are ignored');
});

t.test('without opened networks nothing of this machine is reached', async (t) => {
  const strict = await startServer({ t, env: { URL_DNS_SERVERS: dns.address, URL_PORTS: '80,443,1024-65535' } });
  const accepted = origin.accepted;
  const cases: [string, string][] = [
    [`http://127.0.0.1:${origin.port}/hello.txt`, 'address is not public'],
    [`${BASE}/hello.txt`, 'address is not public'],
    [`http://localhost:${origin.port}/`, 'host is not allowed'],
    ['http://files.example:81/', 'port is not allowed'],
  ];
  for (const [url, reason] of cases) {
    const { status, body } = await scanUrl(url, strict);
    t.match({ status, ...body }, { status: 400, message: `URL rejected: ${reason}` }, url);
  }
  t.equal(origin.accepted, accepted);
});

t.test('many large downloads stay inside the memory that is set, and uploads go on beside them', async (t) => {
  const wide = await startServer({
    t,
    env: {
      URL_ALLOW_NETWORKS: '127.0.0.1/32',
      DOWNLOADS_PER_USER: '1000',
      DOWNLOAD_MEMORY_MB: '32',
      UPLOAD_MEMORY_MB: '32',
      UPLOAD_WAIT_MS: '2000',
    },
  });
  const large = response(Buffer.alloc(LIMIT_BYTES, 'plain text, quickly scanned\n'));
  paths['/large'] = ({ send }) => send(large);
  let done = false;
  const downloads = Promise.all(
    Array.from({ length: 100 }, () => scanUrl(`http://127.0.0.1:${origin.port}/large`, wide)),
  ).finally(() => {
    done = true;
  });
  let peak = 0;
  let uploads = 0;
  while (!done) {
    peak = Math.max(peak, wide.residentBytes());
    t.equal((await upload(wide.url, 'beside them')).status, 200);
    uploads += 1;
  }
  const statuses = (await downloads).map(({ status }) => status);
  const served = statuses.filter((status) => status === 200).length;
  t.equal(served + statuses.filter((status) => status === 503).length, 100, `${served} served`);
  t.ok(served > 0 && uploads > 0);
  // As in load.test.ts: what the service needs without any content, and twice the budgets.
  t.ok(peak < (600 + 2 * 64) * MIB, `${Math.round(peak / MIB)} MiB at most`);
});
