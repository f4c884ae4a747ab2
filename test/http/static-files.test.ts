// Files in memory: in which form they are sent, and as the client takes them, over both HTTP libraries.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { chooseLibrary, type EndedRequest, startServer } from '../../src/http/server.js';
import { fileReply, readStaticFiles } from '../../src/http/static-files.js';
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
  const ended: [path: string, status: number | null][] = [];
  const server = await startServer({
    library: await chooseLibrary(name),
    host: '127.0.0.1',
    port: 0,
    handle(exchange) {
      const file = byPath.get(exchange.path);
      if (file === undefined || exchange.problem !== null) exchange.reply({ status: 400, body: '{}' });
      else exchange.reply(fileReply(file, exchange.headers));
    },
    onEnd: ({ path }: EndedRequest, status) => ended.push([path, status]),
  });
  t.teardown(() => server.stop(0));
  return { server, ended };
}

const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;

for (const name of await librariesHere()) {
  t.test(name, async (t) => {
    t.test('the best form that the client takes, or none where it has it already', async (t) => {
      const { server } = await serve(t, name);
      const client = await openRaw(server.port);
      t.teardown(() => client.end());
      await client.send(get('/small.txt', 'Accept-Encoding: gzip\r\n'));
      const plain = await client.answer();
      t.match(plain, { status: 200, body: SMALL });
      t.notOk(plain?.headers.has('content-encoding'));
      await client.send(get('/small.txt', 'Accept-Encoding: gzip, br\r\n'));
      const small = await client.answer();
      t.match(small, { status: 200, body: 'as brotli' });
      const etag = small?.headers.get('etag') ?? '';
      await client.send(get('/small.txt', `Accept-Encoding: br\r\nIf-None-Match: ${etag}\r\n`));
      const known = await client.answer();
      t.match(known, { status: 304, body: '' });
      for (const answer of [small, known]) {
        t.match(Object.fromEntries(answer?.headers ?? []), {
          'cache-control': 'no-cache',
          vary: 'Accept-Encoding',
          'x-content-type-options': 'nosniff',
        });
      }
      t.match(small?.headers.get('content-type'), 'text/plain; charset=utf-8');
      t.equal(small?.headers.get('content-encoding'), 'br');
      t.equal(server.open, 0);
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
      const { server } = await serve(t, name);
      const client = await openRaw(server.port);
      await client.send(get('/small.txt'));
      t.notOk((await client.answer())?.headers.has('connection'));
      server.stopListening();
      await client.send(get('/small.txt'));
      const last = await client.answer();
      t.equal(last?.body, SMALL);
      t.equal(last?.headers.get('connection'), 'close');
      await client.closed();
    });
  });
}
