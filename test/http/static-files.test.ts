// Files in memory: found before anything else of a request is made, sent as the client takes them, over both HTTP libraries.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { chooseLibrary, type EndedRequest, startServer } from '../../src/http/server.js';
import { createFileFinder, fileReply, readStaticFiles } from '../../src/http/static-files.js';
import { librariesHere } from '../fixtures/libraries.js';
import { openRaw } from '../fixtures/raw-http.js';
import { until } from '../fixtures/until.js';

/** More than the sockets of both ends hold together. */
const LARGE = Buffer.alloc(48 * 1024 * 1024, 'a line of a large file\n');
const SMALL = 'one small file';

async function serve(t: Pick<typeof import('tap').default, 'teardown'>, name: 'uws' | 'node') {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-files-'));
  writeFileSync(join(folder, 'large.txt'), LARGE);
  writeFileSync(join(folder, 'small.txt'), SMALL);
  writeFileSync(join(folder, 'small.txt.br'), 'as brotli');
  const files = readStaticFiles(folder, () => ({ 'Cache-Control': 'no-cache' }));
  rmSync(folder, { recursive: true });
  const byPath = new Map([...files].map(([path, file]) => [`/${path}`, file]));
  const exchanges: string[] = [];
  const ended: [path: string, status: number | null][] = [];
  const server = await startServer({
    library: await chooseLibrary(name),
    host: '127.0.0.1',
    port: 0,
    findFile: createFileFinder(byPath),
    handle(exchange) {
      exchanges.push(`${exchange.method} ${exchange.path} ${exchange.problem ?? ''}`.trim());
      const file = byPath.get(exchange.path);
      if (file === undefined || exchange.problem !== null) exchange.reply({ status: 400, body: '{}' });
      else exchange.reply(fileReply(file, exchange.headers));
    },
    onEnd: ({ path }: EndedRequest, status) => ended.push([path, status]),
  });
  t.teardown(() => server.stop(0));
  return { server, exchanges, ended };
}

const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;

for (const name of await librariesHere()) {
  t.test(name, async (t) => {
    t.test('a plain GET makes no exchange, and its answer is the one that an exchange would give', async (t) => {
      const { server, exchanges } = await serve(t, name);
      const client = await openRaw(server.port);
      t.teardown(() => client.end());
      // A body, even none of three bytes, is for the exchange to read.
      const long = 'Content-Length: 3\r\nX-Request-Id: mine\r\n';
      const known = 'If-None-Match: *\r\n';
      const asked: [sent: string, sentToExchange: string][] = [
        [get('/small.txt', 'X-Request-Id: mine\r\n'), `${get('/small.txt', long)}abc`],
        [
          get('/small.txt', 'X-Request-Id: mine\r\nAccept-Encoding: gzip, br\r\n'),
          `${get('/small.txt', `Accept-Encoding: br\r\n${long}`)}abc`,
        ],
        [get('/small.txt', `X-Request-Id: mine\r\n${known}`), `${get('/small.txt', known + long)}abc`],
      ];
      for (const [index, [early, ordinary]] of asked.entries()) {
        await client.send(early);
        const one = await client.answer();
        t.equal(exchanges.length, index);
        await client.send(ordinary);
        const other = await client.answer();
        t.equal(exchanges.length, index + 1);
        t.equal(one?.status, other?.status);
        t.equal(one?.body, other?.body);
        const comparable = (answer: typeof one) =>
          [...(answer?.headers ?? [])].filter(([key]) => key !== 'date').sort();
        t.strictSame(comparable(one), comparable(other));
      }
      t.equal(server.open, 0);
    });

    t.test('what is no plain GET is looked at as every request is', async (t) => {
      const { server, exchanges } = await serve(t, name);
      for (const sent of [
        'HEAD /small.txt HTTP/1.1\r\nHost: a\r\n\r\n',
        'POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n',
        'GET /small.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
        get('/nothing.txt'),
      ]) {
        const client = await openRaw(server.port);
        await client.send(sent);
        if (sent.startsWith('HEAD')) await new Promise((resolve) => client.socket.once('data', resolve));
        else await client.answer();
        client.end();
      }
      t.strictSame(exchanges, [
        'HEAD /small.txt',
        'POST /small.txt',
        'GET /small.txt Repeated header: host',
        'GET /nothing.txt',
      ]);
    });

    t.test('a client that takes a large file slowly gets all of it, and others are served meanwhile', async (t) => {
      const { server, ended } = await serve(t, name);
      const slow = await openRaw(server.port);
      t.teardown(() => slow.end());
      slow.socket.pause();
      await slow.send(get('/large.txt'));
      const other = await openRaw(server.port);
      t.teardown(() => other.end());
      for (let count = 0; count < 3; count += 1) {
        await other.send(get('/small.txt'));
        t.equal((await other.answer())?.body, SMALL);
      }
      const received: Buffer[] = [];
      let bytes = 0;
      slow.socket.removeAllListeners('data');
      slow.socket.on('data', (data) => {
        received.push(data);
        bytes += data.length;
      });
      slow.socket.resume();
      await until(() => bytes > LARGE.length);
      await slow.send(get('/small.txt'));
      await until(() => ended.filter(([path]) => path === '/small.txt').length === 4);
      await until(() => received.at(-1)?.includes(SMALL) === true);
      const all = Buffer.concat(received);
      const start = all.indexOf('\r\n\r\n') + 4;
      t.ok(all.subarray(start, start + LARGE.length).equals(LARGE));
      t.equal(server.open, 0);
    });

    t.test('a client that leaves in the middle of a file is forgotten', async (t) => {
      const { server, ended } = await serve(t, name);
      const client = await openRaw(server.port);
      client.socket.pause();
      await client.send(get('/large.txt'));
      client.end();
      await until(() => ended.length === 1 && server.open === 0);
      t.equal(ended[0]?.[0], '/large.txt');
    });

    t.test('a server that stops gives each connection a last answer', async (t) => {
      const { server, exchanges } = await serve(t, name);
      const client = await openRaw(server.port);
      await client.send(get('/small.txt'));
      t.notOk((await client.answer())?.headers.has('connection'));
      server.stopListening();
      await client.send(get('/small.txt'));
      const last = await client.answer();
      t.equal(last?.body, SMALL);
      t.equal(last?.headers.get('connection'), 'close');
      t.equal(exchanges.length, 1);
      await client.closed();
    });
  });
}
