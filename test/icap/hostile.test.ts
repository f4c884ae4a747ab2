// ICAP with clients that are slow, greedy, silent, many, or gone: each ends, and the others are served.
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import t from 'tap';
import { API_KEY } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { CLEAN, type Client, connect, EICAR, request, startOurs } from './client.js';

const POOR = { UPLOAD_MEMORY_MB: '64', STREAM_MAX_MB: '16', UPLOAD_TIMEOUT_MS: '2000' };
const BIG = Buffer.alloc(15 * 1024 * 1024, 'clean text\n');
const RSS_MB = 1024 * 1024;

// One server for all that let its clients take their time; the last test stops it.
const { server, port } = await startOurs({ ...POOR, UPLOAD_TIMEOUT_MS: '60000' }, { t });

async function open(port: number): Promise<Socket> {
  const socket = createConnection({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

t.test('a body that stops, a client that leaves, and one that never reads', async (t) => {
  const { port } = await startOurs(POOR, { t });
  const cases: readonly [string, Buffer][] = [
    ['within its preview', request({ body: CLEAN, preview: 100 }).bytes.subarray(0, -8)],
    ['behind 100 Continue', request({ body: CLEAN, preview: 0 }).bytes],
    ['within a chunk', request({ body: CLEAN }).bytes.subarray(0, -12)],
    ['before a chunk', request({ body: Buffer.alloc(0) }).bytes.subarray(0, -5)],
  ];
  for (const [name, bytes] of cases) {
    const slow = await connect(port);
    slow.write(bytes);
    t.equal((await slow.answer()).status, 408, name);
    await slow.ended;
    slow.end();
  }
  for (const [, bytes] of cases) {
    const leaving = await open(port);
    leaving.write(bytes);
    leaving.end();
    await once(leaving.resume(), 'close');
  }
  const silent = await open(port);
  silent.pause();
  silent.write(request({ body: BIG, piece: 65_536 }).bytes);
  // It is not read from, so that only what is written shows the end.
  await until(() => {
    silent.write('x');
    return silent.destroyed;
  });
  const client = await connect(port);
  t.equal((await client.ask({ body: CLEAN, preview: 100 })).status, 204, 'the others are served');
  client.end();
});

t.test('large headers that never end share a bounded memory, and small ones are taken beside them', async (t) => {
  const head = 'RESPMOD icap://a/b ICAP/1.0\r\nEncapsulated: res-hdr=0, res-body=131000\r\n\r\n';
  const clients = await Promise.all(Array.from({ length: 300 }, () => connect(port)));
  const ended: Client[] = [];
  for (const client of clients) {
    void client.ended.then(() => ended.push(client));
    client.write(head + 'x'.repeat(100_000));
  }
  // Of 128 KB each, 32 MB have 256.
  const refused = clients.length - 256;
  await until(() => ended.length >= refused);
  for (const client of ended.slice(0, refused)) t.equal((await client.answer()).status, 503);
  const small = await connect(port);
  t.equal((await small.ask({ body: CLEAN, preview: 100 })).status, 204);
  const large = { body: CLEAN, http: `HTTP/1.1 200 OK\r\nA: ${'a'.repeat(9_000)}\r\n\r\n`, preview: 100 };
  for (const client of clients) client.end();
  await until(async () => (await (await connect(port)).ask(large)).status === 204);
  for (let round = 0; round < 300; round += 1) t.equal((await small.ask(large)).status, 204, 'it is given back');
  small.end();
});

t.test('many that send bodies which are sent back share the memory of contents', async (t) => {
  const before = server.residentBytes();
  const clients = await Promise.all(Array.from({ length: 12 }, () => connect(port)));
  const answers = await Promise.all(clients.map((client) => client.ask({ body: BIG, piece: 65_536 })));
  for (const { status, body } of answers) {
    if (status === 200) t.ok(body?.equals(BIG), 'it comes back as it was');
    else t.equal(status, 503, 'or there was no memory for it');
  }
  t.ok(answers.some(({ status }) => status === 200));
  const grownMb = (server.residentBytes() - before) / RSS_MB;
  t.ok(grownMb < 200, `${Math.round(grownMb)} MB more for 180 MB of bodies`);
  for (const client of clients) client.end();
});

t.test('connections that say nothing, or never end their heads, are bounded', async (t) => {
  const { server, port } = await startOurs({}, { t, openFiles: 1024 });
  const most = Number(await server.printed(/"icapConnections":(\d+)/));
  const ofHttp = Number(await server.printed(/"connections":(\d+)/));
  t.ok(Math.abs(ofHttp - most) <= 1, `HTTP has as many: ${ofHttp} and ${most}, one more where they don't divide`);
  const sockets = await Promise.all(Array.from({ length: most + 20 }, () => open(port)));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  await until(() => sockets.filter((socket) => socket.destroyed || socket.readableEnded).length >= 20);
  t.equal(sockets.filter((socket) => !socket.destroyed).length, most);
  for (const [index, socket] of sockets.entries()) socket.write(index % 2 === 0 ? 'OPTIONS icap' : '\r\n');
  const headers = { 'X-API-KEY': API_KEY };
  const form = new FormData();
  form.append('file', new Blob([new Uint8Array(EICAR)]), 'x.txt');
  const response = await fetch(`${server.url}/api/v1/scans`, { method: 'POST', headers, body: form });
  t.equal(response.status, 200, 'HTTP is served beside them');
  sockets.find((socket) => !socket.destroyed)?.destroy();
  await until(async () => {
    const client = await connect(port);
    const isServed = await client.ask({ body: CLEAN, preview: 100 }).then(
      ({ status }) => status === 204,
      () => false,
    );
    client.end();
    return isServed;
  });
});

t.test('scans are recorded for the account of ICAP, also that of a client that leaves', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  await client.ask({ body: EICAR, preview: 100 });
  const gone = await open(port);
  gone.write(request({ body: CLEAN }).bytes.subarray(0, -12));
  gone.end();
  await server.printed(/("failure":"clientGone")/);
  const line = await server.printed(/(\{[^\n]*"virusName":"Sluice\.Test\.EICAR[^\n]*\})/);
  t.match(line, /"status":200/);
  t.match(line, /"keyId":null/);
});

t.test('a stop answers what runs, and does not wait for who is idle', async (t) => {
  const idle = await connect(port);
  const busy = await connect(port);
  const { bytes, rest } = request({ body: CLEAN, preview: 5, headers: ['Allow: 204'] });
  busy.write(bytes);
  await until(() => busy.socket.bytesRead > 0);
  const stopped = server.stop();
  await idle.ended;
  busy.write(rest);
  const answer = await busy.answer();
  t.equal(answer.status, 204);
  t.equal(answer.headers.get('connection'), 'close');
  await busy.ended;
  busy.end();
  t.equal(await stopped, 0);
  idle.end();
});
