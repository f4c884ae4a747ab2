// A body in pieces: made as fast as the client takes it, ended when the client leaves, cut off when it can't be made.
import { connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { startServer } from '../../src/http/server.js';
import type { Reply } from '../../src/http/wire.js';
import { until } from '../fixtures/until.js';

const PIECE = 'x'.repeat(64 * 1024);
const PIECES = 2_000;
/** What sockets of the system and of the library hold of 125 MB that nobody reads, generously. */
const HELD_PIECES = 500;

interface Made {
  pieces: number;
  ended: Promise<void>;
}

async function serve(t: Pick<typeof import('tap').default, 'teardown'>, breaksAt: number | null) {
  let end: () => void = () => undefined;
  const made: Made = {
    pieces: 0,
    ended: new Promise((resolve) => {
      end = resolve;
    }),
  };
  async function* pieces(): AsyncGenerator<string> {
    try {
      for (; made.pieces < PIECES; made.pieces += 1) {
        if (made.pieces === breaksAt) throw new Error('No more');
        yield PIECE;
        await setImmediate();
      }
    } finally {
      end();
    }
  }
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    handle: (exchange) => exchange.reply({ status: 200, contentType: 'text/plain', body: pieces() } satisfies Reply),
    onEnd: () => undefined,
  });
  t.teardown(() => server.stop(0));
  return { port: server.port, made };
}

t.test('all pieces arrive, and the connection goes on', async (t) => {
  const { port, made } = await serve(t, null);
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  t.equal((await answer.text()).length, PIECES * PIECE.length);
  t.equal(made.pieces, PIECES);
  t.equal((await fetch(`http://127.0.0.1:${port}/`, { method: 'HEAD' })).status, 200);
});

t.test('a client that reads nothing has little made for it, and one that leaves ends the making', async (t) => {
  const { port, made } = await serve(t, null);
  const socket = connect(port, '127.0.0.1');
  socket.pause();
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  // Nothing more is made once all buffers are full.
  const LOOKS_WITHOUT_CHANGE = 100;
  let before = -1;
  let same = 0;
  await until(() => {
    same = made.pieces === before && made.pieces > 0 ? same + 1 : 0;
    before = made.pieces;
    return same >= LOOKS_WITHOUT_CHANGE;
  });
  t.ok(made.pieces < HELD_PIECES, `${made.pieces} pieces`);
  socket.destroy();
  await made.ended;
  t.ok(made.pieces < PIECES);
});

t.test('pieces that can not be made end the connection: nobody takes the beginning for the whole', async (t) => {
  const { port } = await serve(t, 3);
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  await t.rejects(answer.text());
});
