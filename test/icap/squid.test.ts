// Debian's Squid in front of a local origin, with the lines of docs/icap.md: EICAR is blocked, clean files come through as they were.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { startBrowser } from '../dashboard/browser.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { startRelay } from '../fixtures/relay.js';
import { until } from '../fixtures/until.js';
import { CLEAN, connect, EICAR, startOurs } from './client.js';

const page = fileURLToPath(new URL('../../../docs/icap.md', import.meta.url));
const LARGE = Buffer.alloc(3_000_000, 'clean text\n');
const UPLOAD = Buffer.alloc(1_000_000, 'clean text\n');
const KEPT = {
  Connection: 'keep-alive',
  'Content-Type': 'application/octet-stream',
  'Content-Length': String(EICAR.length),
};

/** The lines of the page, with the port of the test. */
function linesFor(icapPort: number): string {
  const [, lines = ''] = /```squid\n(.*?)```/s.exec(readFileSync(page, 'utf8')) ?? [];
  return lines.replaceAll('127.0.0.1:1344', `127.0.0.1:${icapPort}`);
}

async function startSquid(t: Test, icapPort: number): Promise<{ proxy: number; log: string }> {
  const folder = temporaryFolder(t);
  chmodSync(folder, 0o777);
  const port = await freePort();
  const path = join(folder, 'squid.conf');
  const log = join(folder, 'cache.log');
  writeFileSync(
    path,
    [
      `http_port 127.0.0.1:${port}`,
      'http_access allow localhost',
      'cache deny all',
      `pid_filename ${join(folder, 'squid.pid')}`,
      `cache_log ${log}`,
      'access_log none',
      'netdb_filename none',
      `coredump_dir ${folder}`,
      'shutdown_lifetime 1 seconds',
      'pinger_enable off',
      linesFor(icapPort),
    ].join('\n'),
  );
  const child = spawn('/usr/sbin/squid', ['-f', path, '--foreground', '-n', 'sluicetest', '-d', '1'], {
    stdio: 'ignore',
  });
  t.teardown(async () => {
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    await gone;
  });
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`Squid has ended: ${readFileSync(log, 'utf8').slice(-2_000)}`);
    return await connect(port).then(
      (client) => {
        client.end();
        return true;
      },
      () => false,
    );
  });
  return { proxy: port, log };
}

/** As no text is, of 1 byte to 100 KB. */
function bytesFor(number: number): Buffer {
  return Buffer.alloc(1 + number * 1_009, createHash('sha256').update(String(number)).digest());
}

interface Fetched {
  readonly status: number;
  readonly body: Buffer;
}

interface Wanted {
  readonly body?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

function fetchThrough(proxyPort: number, url: string, { body, headers }: Wanted = {}): Promise<Fetched> {
  return new Promise((resolve, reject) => {
    const { host } = new URL(url);
    const method = body === undefined ? 'GET' : 'POST';
    const sent = { Host: host, ...headers };
    const options = { host: '127.0.0.1', port: proxyPort, path: url, method, headers: sent, agent: false };
    const asked = httpRequest(options, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts) }));
      response.on('error', reject);
    });
    asked.on('error', reject);
    // As most clients send an upload: its headers first.
    if (body !== undefined) asked.flushHeaders();
    asked.end(body);
  });
}

/** As origins do: of EICAR what is asked for. */
function sendPart(range: string | undefined, response: ServerResponse): void {
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? [];
  if (from === undefined || to === undefined) response.end(EICAR);
  else {
    response.writeHead(206, { 'Content-Range': `bytes ${from}-${to}/${EICAR.length}` });
    response.end(EICAR.subarray(Number(from), Number(to) + 1));
  }
}

t.test('Squid', async (t) => {
  const { port } = await startOurs({}, { t });
  const uploads: number[] = [];
  const origin = createServer((request, response) => {
    let bytes = 0;
    request.on('data', (part: Buffer) => {
      bytes += part.length;
    });
    request.on('end', () => {
      if (request.method === 'POST') uploads.push(bytes);
      const path = request.url ?? '';
      if (path === '/eicar') response.end(EICAR);
      else if (path === '/') response.setHeader('Content-Type', 'text/html').end('<title>Clean</title>');
      else if (path === '/parts') sendPart(request.headers.range, response);
      else if (path.startsWith('/bytes-')) response.end(bytesFor(Number(path.slice('/bytes-'.length))));
      else if (path.startsWith('/large')) response.end(LARGE.subarray(0, Number(path.split('-').at(-1))));
      else if (path.startsWith('/chunked')) {
        response.write(LARGE.subarray(0, 10));
        response.end(LARGE.subarray(10));
      } else if (path === '/nothing') response.writeHead(204).end();
      else response.end(`${CLEAN.toString()} ${path}`);
    });
  }).listen(0, '127.0.0.1');
  // Squid answers 502 where an origin ends a connection just as it asks again.
  origin.keepAliveTimeout = 0;
  t.teardown(() => {
    origin.closeAllConnections();
    origin.close();
  });
  await once(origin, 'listening');
  const address = origin.address();
  const base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  const relay = await startRelay(port);
  const { proxy, log } = await startSquid(t, relay.port);
  const found = await fetchThrough(proxy, `${base}/eicar`);
  t.equal(found.status, 403);
  t.match(found.body.toString(), 'Sluice.Test.EICAR');
  for (const Range of ['bytes=0-33', 'bytes=34-67']) {
    t.equal((await fetchThrough(proxy, `${base}/parts`, { headers: { Range } })).status, 403, Range);
  }
  const ranged = await fetchThrough(proxy, `${base}/large-70000`, { headers: { Range: 'bytes=5-14' } });
  t.strictSame(
    [ranged.status, ranged.body.length],
    [200, 70_000],
    'who asks for a part of what is clean has all of it',
  );
  for (let number = 0; number < 100; number += 10) {
    const paths = Array.from({ length: 10 }, (_, index) => `/file-${number + index}`);
    const answers = await Promise.all(paths.map((path) => fetchThrough(proxy, base + path)));
    t.strictSame(
      answers.map(({ status, body }) => [status, body.toString()]),
      paths.map((path) => [200, `${CLEAN.toString()} ${path}`]),
    );
  }
  // Around what Squid keeps of a response, and well above it. Together, since each may wait for a second.
  const sizes = [60_000, 65_535, 65_536, 65_537, 70_000, 131_072, 1_000_000, LARGE.length];
  const large = sizes.map(async (size) => {
    const { status, body } = await fetchThrough(proxy, `${base}/large-${size}`);
    t.equal(status, 200);
    t.ok(body.equals(LARGE.subarray(0, size)), `${size} bytes`);
  });
  await Promise.all(large);
  t.ok((await fetchThrough(proxy, `${base}/chunked`)).body.equals(LARGE), 'in chunks');
  t.equal((await fetchThrough(proxy, `${base}/nothing`)).status, 204);
  t.equal((await fetchThrough(proxy, `${base}/upload`, { body: UPLOAD })).status, 200);
  t.equal((await fetchThrough(proxy, `${base}/upload`, { body: EICAR })).status, 403);
  // At once: a delay pool that pages of Squid's own are in, too, keeps them for good.
  for (let round = 0; round < 150; round += 1) {
    const sent = Array.from({ length: 8 }, () => fetchThrough(proxy, `${base}/upload`, { body: EICAR, headers: KEPT }));
    for (const { status, body } of await Promise.all(sent)) {
      t.equal(status, 403);
      t.match(body.toString(), /<\/html>\s*$/);
    }
  }
  t.strictSame(uploads, [UPLOAD.length], 'the origin never saw the other uploads');

  await t.test('Chromium through it', async (t) => {
    const browser = await startBrowser([`--proxy-server=http://127.0.0.1:${proxy}`, '--proxy-bypass-list=<-loopback>']);
    t.teardown(() => browser.close());
    const { page } = await browser.person();
    await page.goto(`${base}/`);
    t.equal(await page.title(), 'Clean');
    const digests: unknown = await page.evaluate(`(async () => {
      const digestOf = async (number) => {
        const response = await fetch('/bytes-' + number);
        const bytes = await response.arrayBuffer();
        if (!response.ok) return response.status + ': ' + new TextDecoder().decode(bytes);
        const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
        return bytes.byteLength + ' ' + [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
      };
      return await Promise.all(Array.from({ length: 100 }, (_, number) => digestOf(number)));
    })()`);
    const wanted = Array.from({ length: 100 }, (_, number) => {
      const bytes = bytesFor(number);
      return `${bytes.length} ${createHash('sha256').update(bytes).digest('hex')}`;
    });
    t.strictSame(digests, wanted, 'a hundred clean files arrive as they were');
    const blocked = await page.goto(`${base}/eicar`);
    t.equal(blocked?.status(), 403);
    t.match(await page.locator('body').textContent(), /Blocked: malware was found[\s\S]*Sluice\.Test\.EICAR/);
  });

  await t.test('a service that was away is asked again at once', async (t) => {
    relay.stop();
    for (let count = 0; count < 30; count += 1) t.equal((await fetchThrough(proxy, `${base}/away`)).status, 500);
    const again = await startRelay(port, relay.port);
    t.teardown(() => again.stop());
    t.equal((await fetchThrough(proxy, `${base}/back`)).status, 200);
  });
  t.notMatch(readFileSync(log, 'utf8'), 'WARNING');
});
