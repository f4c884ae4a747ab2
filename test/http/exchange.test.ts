// One request's lifetime over a real socket: its listeners hear that the client has gone, early or late, and only then.
import t, { type Test } from 'tap';
import type { Exchange } from '../../src/http/exchange.js';
import { chooseLibrary, startServer } from '../../src/http/server.js';
import type { HttpLibrary } from '../../src/http/wire.js';
import { SMALL_CHUNKS } from '../../src/limits.js';
import { librariesHere } from '../fixtures/libraries.js';
import { openRaw } from '../fixtures/raw-http.js';
import { until } from '../fixtures/until.js';

/** A server that hands out what it is asked, and how each ended. */
async function serve(t: Test, { library, onBytes }: { library?: HttpLibrary; onBytes?: (count: number) => void } = {}) {
  let open: (exchange: Exchange) => void = () => undefined;
  let end: (status: number | null) => void = () => undefined;
  const asked = new Promise<Exchange>((resolve) => {
    open = resolve;
  });
  const ended = new Promise<number | null>((resolve) => {
    end = resolve;
  });
  const server = await startServer({
    ...(library && { library }),
    host: '127.0.0.1',
    port: 0,
    handle(exchange) {
      // Until then the socket is held back, and nobody sees its end.
      exchange.receive({ take: (bytes) => onBytes?.(bytes.length) });
      open(exchange);
    },
    onEnd: (_, status) => end(status),
  });
  t.teardown(() => server.stop(0));
  const client = await openRaw(server.port);
  t.teardown(() => client.end());
  return { client, asked, ended };
}

const UNFINISHED = 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc';
const GONE = { message: 'The client went away' };

t.test('who receives hears once of a client that goes away, and so does one that asks only later', async (t) => {
  const { client, asked, ended } = await serve(t);
  await client.send(UNFINISHED);
  const exchange = await asked;
  const early: Error[] = [];
  exchange.receive({ take: () => undefined, onLost: (reason) => early.push(reason) });
  const signal = exchange.signal();
  t.notOk(signal.aborted);
  t.notOk(exchange.isGone());
  client.end();
  t.equal(await ended, null);
  t.match(early, [GONE]);
  t.match(signal.reason, GONE);
  t.ok(exchange.isGone());
  const late: Error[] = [];
  exchange.receive({ take: () => t.fail('it is gone'), onLost: (reason) => late.push(reason) });
  t.match(late, [GONE], 'at once');
  t.equal(early.length + late.length, 2);
});

t.test('a signal that is first asked for when the client has gone is aborted already', async (t) => {
  const { client, asked, ended } = await serve(t);
  await client.send(UNFINISHED);
  const exchange = await asked;
  client.end();
  await ended;
  t.ok(exchange.signal().aborted);
  t.match(exchange.signal().reason, GONE);
  exchange.reply({ status: 200, body: '{}' });
  t.equal(await ended, null, 'an answer that comes too late does nothing');
});

t.test('who receives a request that has its answer hears nothing of its client', async (t) => {
  const { client, asked, ended } = await serve(t);
  await client.send('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const exchange = await asked;
  exchange.receive({ take: () => undefined, onLost: () => t.fail('answered') });
  exchange.reply({ status: 200, body: '{}' });
  t.match(await client.answer(), { status: 200, body: '{}' });
  t.equal(await ended, 200);
  client.end();
  await client.closed();
  t.notOk(exchange.signal().aborted);
  t.notOk(exchange.isGone());
});

for (const name of await librariesHere()) {
  t.test(`${name}: small chunks are counted in one turn alone; who sends too many has one answer`, async (t) => {
    let received = 0;
    const { client, asked, ended } = await serve(t, {
      library: await chooseLibrary(name),
      onBytes(bytes) {
        received += bytes;
      },
    });
    await client.send('POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n');
    await asked;
    const some = SMALL_CHUNKS - 50;
    for (const count of [some, 2 * some, 3 * some]) {
      await client.send('1\r\na\r\n'.repeat(some));
      await until(() => received === count);
    }
    await client.send('1\r\na\r\n'.repeat(2 * SMALL_CHUNKS));
    t.equal(await ended, null);
    t.match(await client.answer(), { status: 400, body: /Chunks are too small/ });
    t.equal(await client.answer(), null);
    t.ok(received < 3 * some + 1.1 * SMALL_CHUNKS, 'the rest of it is not taken');
  });
}
