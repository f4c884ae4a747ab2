// Bodies of strangers: refused before they are read, bounded where they are read, and never in the way of those who are known.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { openRaw } from '../fixtures/raw-http.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { signIn } from '../fixtures/sign-in.js';
import { upload } from '../fixtures/upload.js';

const MIB = 1024 * 1024;
const CONNECTIONS = 1_500;
const BODY = Buffer.from(JSON.stringify({ email: 'a@example.com', password: 'x'.repeat(256 * 1024 - 50) }));
/** What 1,500 of them may cost: the budget of bodies is 24 MB, and each connection has a little of its own; over node:http up to 95 KB, on a busy machine most. */
const BOUND_BYTES = { uws: 64 * MIB, node: 160 * MIB };

const NOBODY = 'f'.repeat(32);
const routes: Readonly<Record<string, string>> = {
  'a sign-in in chunks': 'POST /web/auth/login HTTP/1.1\r\nTransfer-Encoding: chunked',
  'a sign-in': `POST /web/auth/login HTTP/1.1\r\nContent-Length: ${BODY.length}`,
  'a route that needs a token': `PUT /web/users/me HTTP/1.1\r\nAuthorization: Bearer a.b.c\r\nContent-Length: ${BODY.length}`,
  'a key that nobody has': `POST /api/v1/scans HTTP/1.1\r\nX-API-KEY: ${NOBODY}\r\nContent-Length: ${BODY.length}`,
};

function flood(t: Test, port: number, head: string): readonly Socket[] {
  const sockets = Array.from({ length: CONNECTIONS }, (_, index) =>
    connect({ port, host: '127.0.0.1', localAddress: `127.0.1.${index % 250}` }),
  );
  const isChunked = head.includes('chunked');
  for (const socket of sockets) {
    socket.on('error', () => undefined).resume();
    socket.write(`${head}\r\nHost: a\r\nContent-Type: application/json\r\n\r\n`);
    if (isChunked) socket.write(`${BODY.length.toString(16)}\r\n`);
    // The last byte never comes.
    socket.write(BODY.subarray(0, -1));
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

let server: TestServer;
let boundBytes: number;

t.before(async () => {
  server = await startServer();
  t.teardown(() => server.stop());
  const { http } = Object(await (await fetch(`${server.url}/version`)).json());
  boundBytes = String(http).startsWith('uWebSockets') ? BOUND_BYTES.uws : BOUND_BYTES.node;
  // What the first of everything costs is nobody's doing.
  await Promise.all(Array.from({ length: 50 }, () => upload(server.url, 'x'.repeat(200_000))));
});

for (const [what, head] of Object.entries(routes)) {
  t.test(`${CONNECTIONS} connections with 256 KB each for ${what} cost little, and others are served`, async (t) => {
    const before = server.residentBytes();
    const sockets = flood(t, server.port, head);
    let highest = 0;
    for (let round = 0; round < 20; round += 1) {
      const beganSeconds = server.cpuSeconds();
      t.equal((await upload(server.url, `content ${round}`)).status, 200);
      t.ok(server.cpuSeconds() - beganSeconds < 6, 'the server has done less than 6 s of work meanwhile');
      highest = Math.max(highest, server.residentBytes());
    }
    t.ok(highest - before < boundBytes, `${Math.round((highest - before) / MIB)} MB`);
    t.comment(`${what}: ${Math.round((highest - before) / MIB)} MB`);
    for (const socket of sockets) socket.destroy();
    await Promise.all(sockets.map((socket) => socket.closed || once(socket, 'close')));
  });
}

t.test(
  'bodies that strangers never end use up their part of the budget: they get 503, an account is served, and all of it comes back',
  async (t) => {
    const { accessToken } = await signIn(server.url);
    // 8,191 of 8,192 bytes each: 2,049 of them are more than the 16 MB that strangers may have.
    const head =
      'POST /web/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 8192\r\n\r\n';
    const request = head + ' '.repeat(8191);
    const clients = await Promise.all(
      Array.from({ length: 2_100 }, (_, index) => openRaw(server.port, `127.0.2.${index % 250}`)),
    );
    t.teardown(() => {
      for (const client of clients) client.end();
    });
    await Promise.all(clients.map((client) => client.send(request)));
    const refused = await Promise.any(
      clients.map(async (client) => (await client.answer()) ?? Promise.reject(new Error('Closed without an answer'))),
    );
    t.match(refused, { status: 503, body: /Too many request bodies at once/ });
    t.match(refused.headers.get('retry-after'), /^[1-9]/);
    const headers = { Authorization: `Bearer ${accessToken}`, 'Content-Type': 'application/json' };
    const put = await fetch(`${server.url}/web/users/me`, {
      method: 'PUT',
      headers,
      body: JSON.stringify({ name: 'a' }),
    });
    t.equal(put.status, 200, 'whose token is good has the reserve');
    t.equal((await upload(server.url, 'not in the way of scans')).status, 200);
    for (const client of clients) client.end();
    for (let status = 503; status === 503; ) {
      const body = JSON.stringify({ email: 'nobody@example.com', password: 'a wrong password' });
      ({ status } = await fetch(`${server.url}/web/auth/login`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body,
      }));
      if (status !== 503) t.equal(status, 401, 'the budget is free again');
    }
  },
);

t.test('who has no token is refused before the first byte of the body', async (t) => {
  const client = await openRaw(server.port);
  t.teardown(() => client.end());
  await client.send(
    'POST /web/keys HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n',
  );
  t.match(await client.answer(), { status: 401, body: /Access token missing/ });
});

t.test('a JSON body has 8 KB, also that of an account; in chunks it ends at the first byte beyond', async (t) => {
  const account = await signIn(server.url);
  const headers = { Authorization: `Bearer ${account.accessToken}`, 'Content-Type': 'application/json' };
  const put = async (bytes: number) => {
    const body = JSON.stringify({ name: 'a' }).padEnd(bytes);
    const response = await fetch(`${server.url}/web/users/me`, { method: 'PUT', headers, body });
    return { status: response.status, body: await response.json() };
  };
  t.match(await put(8 * 1024), { status: 200 });
  t.match(await put(8 * 1024 + 1), { status: 413, body: { message: 'Expected at most 8 KB' } });
  const client = await openRaw(server.port);
  t.teardown(() => client.end());
  const head =
    'POST /web/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
  await client.send(`${head}${(8 * 1024 + 1).toString(16)}\r\n${' '.repeat(8 * 1024 + 1)}`);
  t.match(await client.answer(), { status: 413 });
});

/** A raw body in such chunks, as a stranger's or an account's, without its end. */
function inChunks(key: string, chunk: string, count: number): string {
  const head = `POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nX-API-KEY: ${key}\r\nX-Filename: a.txt`;
  const body = `${chunk.length.toString(16)}\r\n${chunk}\r\n`.repeat(count);
  return `${head}\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
}

t.test('a flood of small chunks ends its connection; lines in chunks, and bytes one by one, are a body', async (t) => {
  const open = async () => {
    const client = await openRaw(server.port);
    t.teardown(() => client.end());
    return client;
  };
  for (const key of [NOBODY, API_KEY]) {
    const client = await open();
    let received = '';
    client.socket.on('data', (bytes) => {
      received += bytes.toString('latin1');
    });
    // Behind its end lies another request, which nobody reads any more.
    void client.send(`${inChunks(key, 'a', 20_000)}0\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n`);
    await client.closed();
    const [, length, body = ''] = /Content-Length: (\d+)\r\nConnection: close\r\n\r\n(.*)$/s.exec(received) ?? [];
    t.match(received, /^HTTP\/1.1 400 Bad Request\r\n/);
    t.match(JSON.parse(body), { error: 'Bad request', message: /^Chunks are too small/ });
    t.equal(body.length, Number(length), 'nothing behind it');
  }
  const lines = await open();
  await lines.send(`${inChunks(API_KEY, `${'a line of a log'.padEnd(39)}\n`, 5_000)}0\r\n\r\n`);
  t.match(await lines.answer(), { status: 200, body: /"infected":false/ });
  const slow = await open();
  await slow.send(inChunks(API_KEY, 'a', 0));
  for (const byte of '1\r\na\r\n'.repeat(200)) await slow.send(byte);
  // uWebSockets.js takes the body for over without the last line, and what comes behind the answer resets the connection.
  await slow.send('0\r\n\r\n');
  t.match(await slow.answer(), { status: 200, body: /"infected":false/ });
});
