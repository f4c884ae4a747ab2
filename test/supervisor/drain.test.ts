// What a replaced server waits for, over real connections: requests by their own limit, connections without any by another.
import { once } from 'node:events';
import { fstatSync } from 'node:fs';
import { connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { openListener } from '../../src/http/connections.js';
import type { Exchange } from '../../src/http/exchange.js';
import { startServer } from '../../src/http/server.js';
import { HANDSHAKE_MS, SILENCE_MS } from '../../src/limits.js';

const LONG_MS = 1e8;

/** A server that answers on command; resolves with it and the first request, which is open. */
async function withOpenRequest(t: Test) {
  let isThere: (exchange: Exchange) => void = () => undefined;
  const first = new Promise<Exchange>((resolve) => {
    isThere = resolve;
  });
  const server = await startServer({ host: '127.0.0.1', port: 0, handle: isThere, onEnd: () => undefined });
  t.teardown(() => server.stop(0));
  const client = connect(server.port, '127.0.0.1').resume();
  t.teardown(() => client.destroy());
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  return { server, exchange: await first, closed: once(client, 'close') };
}

t.test('a request that outlasts the limit for idle connections is answered', async (t) => {
  const { server, exchange, closed } = await withOpenRequest(t);
  server.stopListening();
  const events: string[] = [];
  const drained = server.drain({ idleMs: 1, requestMs: LONG_MS }).then(() => events.push('drained'));
  await server.drain({ idleMs: 1, requestMs: 1 });
  events.push('both limits are over');
  exchange.reply({ status: 200, body: '{}' });
  await Promise.all([drained, closed]);
  t.same(events, ['both limits are over', 'drained']);
});

t.test('a stop ends the drain, and waits for the request by its own limit', async (t) => {
  const { server, exchange } = await withOpenRequest(t);
  server.stopListening();
  const drained = server.drain({ idleMs: LONG_MS, requestMs: LONG_MS });
  const stopped = server.stop(LONG_MS);
  await drained;
  t.equal(server.open, 1);
  exchange.reply({ status: 200, body: '{}' });
  await stopped;
  t.equal(server.open, 0);
});

/** A few milliseconds: as long as a packet is on its way, about. */
const SOON_MS = 5;

for (const [when, asking] of [
  ['when nobody else can connect', { atMs: SOON_MS, stillMs: 0 }],
  ['while the process stands still', { atMs: 2 * HANDSHAKE_MS, stillMs: SILENCE_MS }],
] as const) {
  t.test(`who has connected just before a stop, and asks ${when}, is answered`, async (t) => {
    for (;;) {
      const { answer, afterMs } = await askAtStop(t, asking);
      // Where this machine was busy meanwhile, that was no client that is about to ask.
      if (afterMs >= SILENCE_MS) continue;
      t.match(answer, /^HTTP\/1\.1 200 /);
      return;
    }
  });
}

interface Asking {
  /** After it has connected. */
  readonly atMs: number;
  /** Both it and the server stand still for so long then. */
  readonly stillMs: number;
}

/** The answer to a client, empty if its connection was ended without one, and how long after it had connected it has asked. */
async function askAtStop(t: Test, { atMs, stillMs }: Asking): Promise<{ answer: string; afterMs: number }> {
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    handle: (exchange) => exchange.reply({ status: 200, body: '{}' }),
    onEnd: () => undefined,
  });
  let answer = '';
  const startedMs = performance.now();
  const client = connect(server.port, '127.0.0.1').setEncoding('latin1');
  client.on('data', (text: string) => {
    answer += text;
  });
  client.on('error', () => undefined);
  t.teardown(() => client.destroy());
  const closed = new Promise((resolve) => client.once('close', resolve));
  await once(client, 'connect');
  const isOver = server.drain({ idleMs: LONG_MS, requestMs: LONG_MS });
  const stopped = server.stop(LONG_MS);
  await isOver;
  while (performance.now() - startedMs < atMs) await setImmediate();
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const afterMs = performance.now() - startedMs;
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stillMs);
  await Promise.all([stopped, closed]);
  return { answer, afterMs };
}

t.test('a stop closes the listening socket that the process was given', async (t) => {
  const listener = await openListener('127.0.0.1', 0);
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    inheritedDescriptor: listener,
    handle: () => undefined,
    onEnd: () => undefined,
  });
  await server.stop(LONG_MS);
  t.throws(() => fstatSync(listener), { code: 'EBADF' });
});
