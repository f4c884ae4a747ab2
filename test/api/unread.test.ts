// Requests that come behind each other over one connection, as many as a packet holds: what nobody reads is bounded, and who reads has no more than his turn.
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startServer } from '../fixtures/server.js';
import { upload } from '../fixtures/upload.js';

const MIB = 1024 * 1024;
/** What any of them may cost, with what V8 has not collected yet on a busy machine. The documents alone would be more than a gigabyte. */
const BOUND_BYTES = 120 * MIB;
/** 507 KB of them for the document. */
const REQUESTS = 13_000;
/** A scan takes a few turns of the event loop here, in which the server has no time for more of others; without turns it is tens of thousands. */
const ANSWERS_FOR_A_SCAN = 2_000;
const SCANS = 50;

const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;

const asked: Readonly<Record<string, string>> = {
  'the OpenAPI document': get('/openapi.json'),
  'the head of it': get('/openapi.json').replace('GET', 'HEAD'),
  'an answer of few bytes': get('/livez'),
  'a page': get('/'),
  'a page that the client has': get('/', 'If-None-Match: *\r\n'),
  'a path that nobody serves': get('/nothing'),
  'a refusal': 'POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n',
  'a refusal of a body': 'POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx',
  'a sign-in that is none': 'POST /web/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n',
};

const server = await startServer({ t });

function open(t: Test): Socket {
  const socket = connect({ port: server.port, host: '127.0.0.1' });
  // A reset is how the server closes a connection that is still sent to.
  socket.on('error', () => undefined);
  t.teardown(() => socket.destroy());
  return socket;
}

/** Resolves when the server has closed the connection, of which a client that doesn't read hears only when it sends. */
async function closed(socket: Socket): Promise<void> {
  while (!socket.destroyed) {
    socket.write('\r\n');
    await delay(50);
  }
}

/** A few at once: each waits until the server has seen that nothing is read. */
const AT_ONCE = 3;
const kinds = Object.entries(asked);

for (let first = 0; first < kinds.length; first += AT_ONCE) {
  const group = kinds.slice(first, first + AT_ONCE);
  const names = group.map(([name]) => name).join(', ');
  t.test(`${REQUESTS} times each of ${names}, and nothing is read: memory stays, connections are closed`, async (t) => {
    const before = server.residentBytes();
    let highest = before;
    const watching = setInterval(() => {
      highest = Math.max(highest, server.residentBytes());
    }, 20);
    t.teardown(() => clearInterval(watching));
    await Promise.all(
      group.map(async ([, request]) => {
        const socket = open(t).pause();
        socket.write(request.repeat(REQUESTS));
        await closed(socket);
      }),
    );
    t.equal((await upload(server.url, 'x')).status, 200);
    t.ok(highest - before < BOUND_BYTES, `${Math.round((highest - before) / MIB)} MB`);
  });
}

for (const connections of [1, 8]) {
  t.test(
    `an account's scans go on beside ${connections} connections that send requests without end, and read`,
    async (t) => {
      let answers = 0;
      let isOver = false;
      const packet = get('/livez').repeat(1_000);
      const flood = (): void => {
        if (isOver) return;
        const socket = open(t);
        const send = (): void => {
          if (!isOver && !socket.destroyed) socket.write(packet, () => setImmediate(send));
        };
        socket.on('data', (bytes) => {
          answers += bytes.toString('latin1').split('HTTP/1.1 200').length - 1;
        });
        socket.once('close', flood);
        socket.once('connect', send);
      };
      for (let index = 0; index < connections; index += 1) flood();
      for (let index = 0; index < SCANS; index += 1) {
        t.equal((await upload(server.url, `${connections} ${index}`)).status, 200);
      }
      isOver = true;
      t.ok(answers < SCANS * ANSWERS_FOR_A_SCAN, `${answers} answers beside ${SCANS} scans`);
    },
  );
}
