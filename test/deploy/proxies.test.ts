// The proxies of deploy/ in front of two nodes: what comes in goes on as it is, what is refused is read, and a node that is lost costs no second scan.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import t from 'tap';
import { makeCertificate } from '../fixtures/certificate.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { librariesHere } from '../fixtures/libraries.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startDefaultNginx, startProxy } from '../fixtures/proxies.js';
import { startRedis } from '../fixtures/redis.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { EMAIL, PASSWORD } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import {
  addressOf,
  formOf,
  type Gate,
  openRequest,
  type ProxiedAnswer,
  send,
  upload,
  uploadHeaders,
  uploadThenRead,
} from './tls-client.js';

const LIMIT = 10 * 1024 * 1024;
/** The proxies' health checks in this test, and more of them than any waits for. */
const CHECK_MS = 500;
const CHECKS_MISSED = 4;
const tooLarge = { error: 'Scan failed', message: 'File size exceeds limit: 10MB' };
const away = { error: 'Service unavailable', message: 'No node has answered' };

const folder = temporaryFolder(t);
const postgres = await startPostgres();
const redis = await startRedis();
const authority = makeCertificate({ name: 'authority', isAuthority: true });
const certificate = makeCertificate({ name: 'localhost', hosts: ['localhost'], issuer: authority });
const authorityFile = join(folder, 'authority.pem');
writeFileSync(authorityFile, authority.cert);

const env = {
  DATABASE_URL: await postgres.database(),
  REDIS_URL: redis.url,
  BOOTSTRAP_EMAIL: EMAIL,
  BASE_URL: 'https://localhost',
  // The proxies', and not that of all clients.
  TRUSTED_PROXIES: '127.0.0.1/32',
  SCAN_THREADS: '1',
  VERDICT_CACHE_MB: '0',
};
const [portOne, portTwo, adminPort] = [await freePort(), await freePort(), await freePort()];
const startNode = (port: number, more: Readonly<Record<string, string>> = {}): Promise<TestServer> =>
  startServer({ isSupervised: true, env: { ...env, PORT: String(port), ...more } });
// One of each of the libraries that may serve HTTP, where both are there.
const one = await startNode(portOne, { ADMIN_PORT: String(adminPort), HTTP_SERVER: 'auto' });
const two = await startNode(portTwo, { HTTP_SERVER: 'node' });

const names = ['nginx', 'HAProxy', 'Apache', 'Caddy'] as const;
const gates = await Promise.all(
  names.map(async (name) => {
    const proxy = await startProxy(name, { nodes: [portOne, portTwo], certificate });
    const gate: Gate = { port: proxy.port, ca: authority.cert };
    return { name, proxy, gate };
  }),
);
t.teardown(async () => {
  await Promise.all(gates.map(({ proxy }) => proxy.stop()));
  await Promise.all([one.stop(), two.stop()]);
  await Promise.all([postgres.stop(), redis.stop()]);
});

function remaining(headers: ReadonlyMap<string, string>): number {
  return Number(headers.get('x-ratelimit-remaining'));
}

function refuses(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', () => resolve(true));
  });
}

/** A stream that ends before the upload does (RFC 9113, section 8.1) is an error to curl, which has printed the answer by then. */
const CURL_STREAM_ENDED = 92;

async function curl(args: readonly string[]): Promise<string> {
  const child = spawn('curl', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  const [code] = await once(child, 'close');
  if (code !== 0 && code !== CURL_STREAM_ENDED) throw new Error(`curl ended with ${code}`);
  return stdout;
}

/**
 * Apache hands an answer on only after the whole upload. The node waits for a refused one as long as it does not pause for a quarter of a
 * second, which depends on the machine.
 */
function isExpected(name: string, body: unknown, expected: object): boolean {
  const has = (wanted: object): boolean => Object.entries(wanted).every(([key, value]) => Object(body)[key] === value);
  return has(expected) || (name === 'Apache' && 'error' in expected && has(away));
}

/** Bytes of uploads that the first node holds. */
async function held(): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  return Number(/^sluice_upload_memory_bytes (\d+)/m.exec(metrics)?.[1]);
}

for (const { name, gate } of gates) {
  t.test(`${name}: contents of every size arrive whole, with a length and in chunks`, async (t) => {
    for (const isChunked of [false, true]) {
      for (const size of [1, 1_000, 100_000, 1_000_000, LIMIT]) {
        const content = Buffer.alloc(size, 'a content that repeats itself ');
        const { status, headers, body } = await upload(gate, content, isChunked);
        const sum = createHash('sha256').update(content).digest('hex');
        const how = `${size} bytes${isChunked ? ' in chunks' : ''}`;
        t.match({ status, body }, { status: 200, body: { sizeInBytes: size, infected: false } }, how);
        t.equal(headers.get('x-scan-sha256'), sum, how);
      }
      const empty = await upload(gate, Buffer.alloc(0), isChunked);
      t.match(empty, { status: 400, body: { message: 'File is empty' } });
      t.match(await upload(gate, Buffer.alloc(LIMIT + 1), isChunked), { status: 400, body: tooLarge });
    }
  });

  t.test(
    `${name}: a client that reads only after it has sent everything gets an early refusal all the same`,
    async (t) => {
      const { 'X-API-KEY': _, ...keyless } = uploadHeaders;
      for (const [size, headers, expected] of [
        [LIMIT, keyless, { error: 'X-API-KEY MISSING' }],
        [2 * LIMIT, keyless, { error: 'X-API-KEY MISSING' }],
        [LIMIT + 1, uploadHeaders, tooLarge],
        [5 * LIMIT, uploadHeaders, tooLarge],
      ] as const) {
        const text = await uploadThenRead(gate, Buffer.alloc(size), headers);
        t.ok(
          isExpected(name, JSON.parse(/\{.*\}/.exec(text ?? '')?.[0] ?? 'null'), expected),
          `${size} bytes: ${text}`,
        );
      }
    },
  );

  t.test(
    `${name}: a refusal of what was announced by Expect arrives whole, also if the client sends no more`,
    async (t) => {
      const { 'X-API-KEY': _, ...keyless } = uploadHeaders;
      const opened = openRequest(gate, { length: LIMIT, headers: { ...keyless, Expect: '100-continue' } });
      await opened.send(Buffer.alloc(1));
      // Apache passes it on only after the whole upload.
      if (name === 'Apache') void opened.send(Buffer.alloc(LIMIT - 1)).then(opened.end);
      const { status, body } = await opened.answer;
      t.match({ status, body }, { status: 401, body: { error: 'X-API-KEY MISSING' } });
    },
  );

  t.test(`${name}: a path goes on as it was sent`, async (t) => {
    const { status, body } = await send(gate, Buffer.alloc(0), { method: 'GET', path: '/a%2Fb', headers: {} });
    t.match({ status, body }, { status: 404, body: { message: 'No such resource: /a%2Fb' } });
  });

  t.test(`${name}: curl speaks HTTP/2 with it`, async (t) => {
    const file = join(folder, 'a.bin');
    for (const [size, expected] of [
      [LIMIT, { infected: false, sizeInBytes: LIMIT }],
      [5 * LIMIT, tooLarge],
    ] as const) {
      writeFileSync(file, Buffer.alloc(size));
      const url = `https://localhost:${gate.port}/api/v1/scans`;
      const common = ['-s', '--max-time', '30', '-w', '\n%{http_version}', '--cacert', authorityFile];
      const form = ['-H', `X-API-KEY: ${API_KEY}`, '-F', `file=@${file}`];
      const stdout = await curl([...common, '--http2', ...form, url]);
      // Where a refusal is lost, as of isExpected(), the stream ends with no answer.
      if (name === 'Apache' && 'error' in expected && stdout === '\n0') continue;
      const [body = '', version] = stdout.trim().split(/\n(?=[^\n]*$)/);
      t.ok(isExpected(name, JSON.parse(body), expected), body);
      t.equal(version, '2');
    }
  });

  t.test(`${name}: a client keeps its connection`, async (t) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => agent.destroy());
    const ports = new Set<number | undefined>();
    for (let round = 0; round < 10; round += 1) {
      const { status, localPort } = await send(gate, formOf(Buffer.alloc(round + 1)), { agent });
      t.equal(status, 200);
      ports.add(localPort);
    }
    t.equal(ports.size, 1);
  });

  t.test(`${name}: the service knows the address of the client, whatever it claims`, async (t) => {
    const login = { email: EMAIL, password: PASSWORD };
    t.equal(await addressOf(gate, '127.0.0.5', '203.0.113.9', login), '127.0.0.5');
    t.equal(await addressOf(gate, '127.0.0.6', '203.0.113.9, 127.0.0.1', login), '127.0.0.6');
  });
}

for (const { name, gate } of gates.filter(({ name }) => name === 'nginx' || name === 'Apache')) {
  t.test(`${name}: what it can't read itself is refused in JSON`, async (t) => {
    const headers = { 'X-Long': 'a'.repeat(40_000) };
    const { status, body } = await send(gate, Buffer.alloc(0), { method: 'GET', headers });
    t.match({ status, body }, { status: 400, body: { error: 'Bad request', message: 'The request can not be read' } });
  });
}

for (const { name, gate } of gates.filter(({ name }) => name === 'Apache')) {
  t.test(`${name}: its own 413 is about a chunk, and names no size that Sluice refuses`, async (t) => {
    const { port, ca } = gate;
    const socket = connectTls({ host: '127.0.0.1', servername: 'localhost', port, ca });
    t.teardown(() => socket.destroy());
    const head = 'POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n';
    socket.write(`${head}fffffffffffffffff\r\n`);
    const said = await textOf(socket);
    t.match(said, /^HTTP\/1\.1 413 /);
    t.match(said, /\r\nContent-Type: application\/json\r\n/);
    t.match(said, /\r\n\{"error":"Bad request","message":"The size of a chunk can not be read"\}$/);
  });
}

t.test('nginx with its defaults speaks HTTP/1.0, takes 1 MB, and needs a node with HTTP_SERVER=node', async (t) => {
  const ask = async (node: number, size: number): Promise<number> => {
    const proxy = await startDefaultNginx(node);
    t.teardown(() => proxy.stop());
    const form = new FormData();
    form.append('file', new Blob([Buffer.alloc(size)]), 'a.bin');
    const init = { method: 'POST', body: form, headers: { 'X-API-KEY': API_KEY } };
    const answer = await fetch(`http://127.0.0.1:${proxy.port}/api/v1/scans`, init);
    await answer.text();
    return answer.status;
  };
  const hasBoth = (await librariesHere()).includes('uws');
  t.equal(await ask(portOne, 1_000), hasBoth ? 505 : 200);
  t.equal(await ask(portTwo, 1_000), 200);
  t.equal(await ask(portTwo, 1_000_000), 200);
  t.equal(await ask(portTwo, 2_000_000), 413, 'which is its own');
});

t.test(
  'the database is away for longer than health checks take: what nodes can serve without it goes on',
  async (t) => {
    postgres.pause();
    t.teardown(() => postgres.resume());
    const isReady = async (url: string): Promise<boolean> => (await fetch(`${url}/readyz`)).status === 200;
    await until(async () => !(await isReady(one.url)) && !(await isReady(two.url)));
    for (let round = 0; round < CHECKS_MISSED; round += 1) {
      for (const { name, gate } of gates) t.equal((await upload(gate, Buffer.alloc(100))).status, 200, name);
      await sleep(CHECK_MS);
    }
    postgres.resume();
    await until(async () => (await isReady(one.url)) && (await isReady(two.url)));
  },
);

/** An upload that is sent again as `Retry-After` says, and how often that was needed. */
async function insist(gate: Gate, content: Uint8Array): Promise<{ answer: ProxiedAnswer; refusals: number }> {
  for (let refusals = 0; ; refusals += 1) {
    const answer = await upload(gate, content);
    if (answer.status !== 502 && answer.status !== 503) return { answer, refusals };
    await sleep(Number(answer.headers.get('retry-after')) * 1000);
  }
}

t.test('a node is gone: the next uploads go to the other one, and each costs one unit', async (t) => {
  await two.stop('SIGKILL');
  await until(() => refuses(portTwo));
  await enoughOfTheHour(60_000);
  for (const { name, gate } of gates) {
    const left: number[] = [];
    let refused = 0;
    for (let round = 0; round < 6; round += 1) {
      const { answer, refusals } = await insist(gate, Buffer.alloc(100_000, 'x'));
      t.equal(answer.status, 200, `${name}: ${JSON.stringify(answer.body)}`);
      left.push(remaining(answer.headers));
      refused += refusals;
    }
    t.equal((left[0] ?? 0) - (left.at(-1) ?? 0), 5, name);
    // Caddy asks the other node for nothing that has a body, until its next health check.
    t.ok(refused <= (name === 'Caddy' ? 1 : 0), `${name}: ${refused} had to be sent again`);
  }
});

t.test('a node dies with an upload: its client hears of it, and nothing is scanned twice', async (t) => {
  const content = formOf(Buffer.alloc(1_100_000, 'y'));
  const SENT = 525_000;
  const [first] = gates;
  if (first === undefined) throw new Error('There are four');
  await enoughOfTheHour(60_000);
  let left = remaining((await upload(first.gate, Buffer.alloc(1))).headers);
  const begun = gates.map(({ name, gate }) => ({ name, ...openRequest(gate, { length: content.length }) }));
  // Just over 512 KiB, for which the node lends 1 MiB. Anything that a proxy has not read when the node dies could cost its client the answer, by TCP's reset.
  for (const { send } of begun) {
    const before = await held();
    await send(content.subarray(0, SENT));
    await until(async () => (await held()) >= before + 1_000_000);
  }
  process.kill(one.serverPid(), 'SIGKILL');
  for (const { name, send, end, answer } of begun) {
    // These two look after the node only when there is more to send to it.
    if (name === 'Apache' || name === 'Caddy') void send(content.subarray(SENT)).then(end);
    const { status, headers, body } = await answer;
    t.ok(status === 502 || status === 503, `${name}: ${status}`);
    t.same(body, away, name);
    t.equal(headers.get('retry-after'), '1', name);
  }
  for (const { name, gate } of gates) {
    const { answer } = await insist(gate, Buffer.alloc(1));
    t.equal(answer.status, 200, `${name} finds the node again: ${JSON.stringify(answer.body)}`);
    const units = left - remaining(answer.headers);
    // Each upload that was lost may have cost its own.
    t.ok(units >= 1 && units <= (name === first.name ? 1 + begun.length : 1), `${name}: ${units} units`);
    left -= units;
  }
});
