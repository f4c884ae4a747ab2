// Requests that are refused before anything is made of them, over both HTTP libraries: their bodies are dropped, and each connection goes on, or ends with a server that retires.
import t from 'tap';
import { chooseLibrary, startServer } from '../../src/http/server.js';
import { librariesHere } from '../fixtures/libraries.js';
import { openRaw } from '../fixtures/raw-http.js';
import { until } from '../fixtures/until.js';

const BODY = 'b'.repeat(16 * 1024);
const HEAD = `POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: ${BODY.length}\r\n\r\n`;
const OTHER = 'GET /other HTTP/1.1\r\nHost: a\r\n\r\n';

async function serve(t: Pick<typeof import('tap').default, 'teardown'>, name: 'uws' | 'node') {
  const refused: string[] = [];
  const exchanges: string[] = [];
  const ended: (number | null)[] = [];
  const answer = {
    head: { status: 503, isUsual: false, headers: ['Content-Type', 'application/json'] },
    body: Buffer.from('{}\n'),
  };
  const server = await startServer({
    library: await chooseLibrary(name),
    host: '127.0.0.1',
    port: 0,
    findRefusal({ path }) {
      if (path !== '/refused') return null;
      refused.push(path);
      return { answer, headers: new Map(), route: 'POST /refused' };
    },
    handle(exchange) {
      exchanges.push(exchange.path);
      exchange.reply({ status: exchange.path === '/other' ? 200 : 503, body: '{}' });
    },
    onEnd: (_request, status) => ended.push(status),
  });
  t.teardown(() => server.stop(0));
  const client = await openRaw(server.port);
  t.teardown(() => client.end());
  return { server, client, refused, exchanges, ended };
}

for (const name of await librariesHere()) {
  t.test(
    `${name}: what comes of a body is dropped, before its answer and behind it, and the next request is served`,
    async (t) => {
      const { server, client, exchanges, ended } = await serve(t, name);
      for (const [where, withHead, behind] of [
        ['with its head', BODY, ''],
        ['partly with its head', BODY.slice(1_000), BODY.slice(0, 1_000)],
        ['behind its answer', '', BODY],
      ] as const) {
        await client.send(HEAD + withHead);
        t.match(await client.answer(), { status: 503, body: '{}\n' }, where);
        await client.send(behind + OTHER);
        t.match(await client.answer(), { status: 200 }, `behind a body that comes ${where}`);
      }
      await client.send(HEAD);
      await client.send(BODY);
      t.match(await client.answer(), { status: 503 });
      t.strictSame(exchanges, ['/other', '/other', '/other']);
      t.strictSame(ended, [503, 200, 503, 200, 503, 200, 503]);
      t.equal(server.open, 0);
    },
  );

  for (const [what, body] of [
    ['a whole body', BODY],
    ['half a body', BODY.slice(8_000)],
    ['no body yet', ''],
  ] as const) {
    t.test(
      `${name}: a refusal with ${what} that waits when the server retires is the last answer of its connection`,
      async (t) => {
        const { server, client, refused, exchanges, ended } = await serve(t, name);
        await client.send(HEAD + body);
        await until(() => refused.length === 1);
        server.stopListening();
        const last = await client.answer();
        t.match(last, { status: 503, body: '{}\n' });
        t.equal(last?.headers.get('connection'), 'close');
        t.strictSame(ended, [503]);
        // node:http ends the connection by itself.
        await client.send(BODY.slice(body.length) + OTHER);
        t.equal((await client.answer())?.headers.get('connection') ?? 'close', 'close');
        await client.closed();
        t.strictSame(exchanges, name === 'uws' ? ['/other'] : []);
        t.equal(server.open, 0);
      },
    );
  }

  t.test(`${name}: a server that retires refuses nobody before anything is made of the request`, async (t) => {
    const { server, client, refused, exchanges } = await serve(t, name);
    await client.send(OTHER);
    await client.answer();
    server.stopListening();
    await client.send(HEAD + BODY);
    const last = await client.answer();
    t.equal(last?.headers.get('connection'), 'close');
    await client.closed();
    t.strictSame(refused, []);
    t.strictSame(exchanges, ['/other', '/refused']);
  });

  t.test(`${name}: a client that reads last has its answer from a server that retires, too`, async (t) => {
    const { server, client, refused, ended } = await serve(t, name);
    client.socket.pause();
    await client.send(HEAD + BODY.slice(8_000));
    await until(() => refused.length === 1);
    server.stopListening();
    await until(() => ended.length === 1);
    await client.send(BODY.slice(0, 4_000));
    await client.send(BODY.slice(4_000, 8_000));
    client.socket.resume();
    t.match(await client.answer(), { status: 503, body: '{}\n' });
  });

  t.test(`${name}: a client that leaves is forgotten, before its refusal or with it`, async (t) => {
    const { server, client, refused, ended } = await serve(t, name);
    await client.send(HEAD);
    await until(() => refused.length === 1);
    client.end();
    await until(() => ended.length === 1);
    t.ok(ended[0] === null || ended[0] === 503);
    t.equal(server.open, 0);
  });
}
