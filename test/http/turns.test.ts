// What one turn of the event loop answers, over real sockets and both libraries.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { Exchange } from '../../src/http/exchange.js';
import { chooseLibrary, startServer } from '../../src/http/server.js';
import { type Ready, Turns } from '../../src/http/turns.js';
import { REFUSAL_MS } from '../../src/limits.js';
import { librariesHere } from '../fixtures/libraries.js';
import { openRaw } from '../fixtures/raw-http.js';
import { until } from '../fixtures/until.js';

const REQUEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** Of one turn, all strangers together. */
const PER_TURN = 4;
const CONNECTIONS = 40;
/** Of one turn, of callers who are known. */
const REFUSALS_PER_TURN = 64;

type Name = Awaited<ReturnType<typeof librariesHere>>[number];

/** A server that answers at once, and says how many answers each turn has had. */
async function serve(t: Test, name: Name, handle: (exchange: Exchange) => void) {
  const turns: number[] = [0];
  let isOver = false;
  const turn = (): void => {
    turns.push(0);
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const server = await startServer({
    library: await chooseLibrary(name),
    host: '127.0.0.1',
    port: 0,
    handle,
    onEnd(_, status) {
      if (status !== null) turns.push((turns.pop() ?? 0) + 1);
    },
  });
  t.teardown(async () => {
    isOver = true;
    await server.stop(0);
  });
  return { server, answered: () => turns.reduce((sum, count) => sum + count, 0), most: () => Math.max(...turns) };
}

async function clients(t: Test, port: number): Promise<readonly Socket[]> {
  return await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      socket.on('error', () => undefined).resume();
      t.teardown(() => socket.destroy());
      await once(socket, 'connect');
      return socket;
    }),
  );
}

t.test('a caller who is known waits for no stranger', async (t) => {
  const turns = new Turns();
  const given: string[] = [];
  for (let index = 0; index < 10; index += 1) {
    for (const isVouchedFor of [false, true]) {
      const request = {};
      turns.heard = request;
      const give = (): void => void given.push(isVouchedFor ? 'known' : 'stranger');
      turns.answer(request, { isVouchedFor, closeAfter: false, place: null, give });
    }
  }
  t.equal(given.length, PER_TURN, 'inside of the run');
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(given.filter((one) => one === 'known').length, 10, 'at the end of the turn');
  t.ok(given.length <= 10 + 2 * PER_TURN);
  await until(() => given.length === 20);
});

t.test(
  'a refusal waits a moment, and a turn has a bounded number of them, in the order in which they came',
  async (t) => {
    const turns = new Turns();
    const given: number[] = [];
    const refusals = Array.from(
      { length: 200 },
      (_, index): Ready => ({
        isVouchedFor: false,
        closeAfter: false,
        place: null,
        give: (): void => void given.push(index),
      }),
    );
    const begunMs = performance.now();
    for (const refusal of refusals) turns.refuse(refusal);
    // The first one, whose place the others move up to, and one between them.
    const gone = [0, 100];
    for (const [index, refusal] of refusals.entries()) if (gone.includes(index)) turns.forget(refusal);
    let most = 0;
    let before = 0;
    while (given.at(-1) !== refusals.length - 1) {
      await new Promise((resolve) => setImmediate(resolve));
      if (before === 0 && given.length > 0) t.ok(performance.now() - begunMs > REFUSAL_MS - 1, 'none comes at once');
      most = Math.max(most, given.length - before);
      before = given.length;
    }
    t.ok(most <= REFUSALS_PER_TURN, `${most} in a turn`);
    t.same(
      given,
      [...refusals.keys()].filter((index) => !gone.includes(index)),
    );
  },
);

for (const name of await librariesHere()) {
  t.test(name, async (t) => {
    t.test(
      'one connection that sends thousands of requests has a few answers in a turn, and is closed or waits',
      async (t) => {
        const { server, answered, most } = await serve(t, name, (exchange) =>
          exchange.reply({ status: 200, body: '{}' }),
        );
        const socket = connect({ port: server.port, host: '127.0.0.1' });
        socket.on('error', () => undefined).resume();
        t.teardown(() => socket.destroy());
        socket.write(REQUEST.repeat(5_000));
        await until(() => socket.destroyed || answered() === 5_000);
        t.ok(answered() >= PER_TURN);
        t.ok(most() <= PER_TURN, `${most()} in a turn`);
      },
    );

    t.test('strangers on many connections share the turn; each has its answer', async (t) => {
      const { server, answered, most } = await serve(t, name, (exchange) =>
        exchange.reply({ status: 200, body: '{}' }),
      );
      const sockets = await clients(t, server.port);
      for (const socket of sockets) socket.write(REQUEST);
      await until(() => answered() === CONNECTIONS);
      t.ok(most() <= PER_TURN, `${most()} in a turn`);
    });

    t.test('a few requests behind each other in one packet are answered in their order', async (t) => {
      const { server } = await serve(t, name, (exchange) =>
        exchange.reply({ status: 200, body: JSON.stringify(exchange.path) }),
      );
      const client = await openRaw(server.port);
      t.teardown(() => client.end());
      const paths = ['/1', '/2', '/3', '/4'];
      await client.send(paths.map((path) => REQUEST.replace('/', path)).join(''));
      for (const path of paths) t.equal((await client.answer())?.body, JSON.stringify(path));
    });

    t.test('an answer that waits for its turn is dropped with its client', async (t) => {
      let begun = 0;
      let ended = 0;
      const server = await startServer({
        library: await chooseLibrary(name),
        host: '127.0.0.1',
        port: 0,
        handle(exchange) {
          begun += 1;
          exchange.reply({ status: 200, body: '{}' });
        },
        onEnd() {
          ended += 1;
        },
      });
      t.teardown(() => server.stop(0));
      const sockets = await clients(t, server.port);
      for (const socket of sockets) socket.write(REQUEST);
      await until(() => begun > 2 * PER_TURN);
      for (const socket of sockets) socket.resetAndDestroy();
      await until(() => ended === begun && server.open === 0);
      const client = await openRaw(server.port);
      t.teardown(() => client.end());
      await client.send(REQUEST);
      t.equal((await client.answer())?.status, 200);
    });
  });
}
