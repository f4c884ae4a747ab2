// Two servers on one listening socket, as two processes have it: how they share out what comes at once, and what they do when the memory that they share lies.
import { closeSync, openSync } from 'node:fs';
import { createConnection, type NetConnectOpts } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { createShares, joinShares, Share, type ShareOf } from '../../src/door.js';
import { openListener, openUnixListener, portOf } from '../../src/http/connections.js';
import { chooseLibrary, type Server, startServer } from '../../src/http/server.js';
import { type PeerOwner, Peers } from '../../src/peers.js';
import { processAddon } from '../../src/process-addon.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { librariesHere } from '../fixtures/libraries.js';
import { until } from '../fixtures/until.js';

const BURST = 32;
/** Half of them, and four more. */
const MOST = 20;
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

const addon = processAddon();
const shares = createShares();
if (addon === null || shares === null) throw new Error('The addon is not built');
const { descriptor: memory } = shares;
const words = new Int32Array(addon.mapSharedMemory(memory));
t.afterEach(() => void words.fill(0));

/** All in one turn of the event loop, so that all of them wait when the servers look. */
function openBurst(t: Test, place: NetConnectOpts): void {
  const sockets = Array.from({ length: BURST }, () => createConnection(place).on('error', () => undefined));
  for (const socket of sockets) socket.write(GET);
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
}

/** Has a connection, and says nothing. */
const silent: PeerOwner = {
  onBytes: () => undefined,
  onEnd: () => undefined,
  onDrain: () => undefined,
  onClose: () => undefined,
  retire: () => undefined,
  finish: () => undefined,
};

interface Served {
  readonly server: Server;
  /** Connections that have had a request. */
  taken: number;
}

async function serve(
  t: Test,
  name: 'uws' | 'node',
  listener: number,
  { shareOf, limit = 1000 }: { shareOf: ShareOf; limit?: number },
): Promise<Served> {
  const server = await startServer({
    library: await chooseLibrary(name),
    host: '127.0.0.1',
    port: 0,
    inheritedDescriptor: listener,
    share: shareOf('http'),
    connections: { limit, perAddress: 1000, groupOf: (address) => address },
    // No answer: a connection that has one may be ended for others.
    handle() {
      served.taken += 1;
    },
    onEnd: () => undefined,
  });
  const served: Served = { server, taken: 0 };
  t.teardown(() => server.stop(0));
  return served;
}

async function openPlace(t: Test): Promise<{ listener: number; place: NetConnectOpts }> {
  const listener = await openListener('127.0.0.1', 0);
  t.teardown(() => closeSync(listener));
  return { listener, place: { port: portOf(listener), host: '127.0.0.1' } };
}

for (const name of await librariesHere()) {
  t.test(`HTTP, ${name}`, async (t) => {
    t.test('each takes its share, and who has stopped takes none and is not waited for', async (t) => {
      const { listener, place } = await openPlace(t);
      const one = await serve(t, name, listener, { shareOf: joinShares(memory, 0) });
      const other = await serve(t, name, listener, { shareOf: joinShares(memory, 1) });
      openBurst(t, place);
      await until(() => one.taken + other.taken === BURST);
      t.ok(Math.max(one.taken, other.taken) <= MOST, `${one.taken} and ${other.taken}`);
      openBurst(t, place);
      await until(() => one.taken + other.taken === 2 * BURST);
      t.ok(Math.max(one.taken, other.taken) <= BURST + 4, `${one.taken} and ${other.taken}`);
      one.server.stopListening();
      t.equal(words[0], 0);
      const before = one.taken;
      openBurst(t, place);
      await until(() => one.taken + other.taken === 3 * BURST);
      t.equal(one.taken, before);
    });

    t.test('what one that is full does not take is for the other one', async (t) => {
      const { listener, place } = await openPlace(t);
      const full = await serve(t, name, listener, { shareOf: joinShares(memory, 0), limit: 8 });
      const other = await serve(t, name, listener, { shareOf: joinShares(memory, 1) });
      openBurst(t, place);
      await until(() => full.taken + other.taken === BURST);
      t.equal(full.taken, 8);
    });

    t.test('nothing is lost to one that takes nothing, as it hangs', async (t) => {
      const { listener, place } = await openPlace(t);
      const server = await serve(t, name, listener, { shareOf: joinShares(memory, 0) });
      joinShares(memory, 1)('http')?.join();
      openBurst(t, place);
      await until(() => server.taken === BURST);
    });
  });
}

t.test('a UNIX socket, where nobody can tell how many wait', async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'socket');
  const descriptor = openUnixListener(path, 0o600);
  t.equal(addon.waitingAt(descriptor), null);
  const one = new Peers(() => silent, joinShares(memory, 0)('clamd'));
  const other = new Peers(() => silent, joinShares(memory, 1)('clamd'));
  for (const peers of [one, other]) peers.listen({ way: 'unix', descriptor });
  openBurst(t, { path });
  await until(() => one.size + other.size === BURST);
  t.ok(Math.max(one.size, other.size) <= MOST, `${one.size} and ${other.size}`);
  one.stopListening();
  // Each closes the descriptor, which two processes would have twice.
  t.equal(openSync('/dev/null', 'r'), descriptor);
  other.stopListening();
  for (const peers of [one, other]) {
    peers.destroy();
    await peers.empty();
  }
});

t.test('the memory says anything: at least none is due, and at most what waits', (t) => {
  const word = fc.oneof(fc.integer(), fc.constantFrom(0, 1, -1, 2 ** 31 - 1, -(2 ** 31)));
  fc.assert(
    fc.property(fc.array(word, { maxLength: 256 }), fc.nat(10_000), fc.nat(1_000_000), (said, waiting, count) => {
      const share = new Share(Int32Array.from(said), 0, 'http');
      share.say(count);
      const due = share.due(waiting);
      return Number.isInteger(due) && due >= 0 && due <= waiting;
    }),
  );
  t.end();
});

t.test('places are taken once, and a process that is gone has no connections', (t) => {
  const places = Array.from({ length: 256 }, () => shares.take());
  t.equal(new Set(places).size, 256);
  t.equal(shares.take(), null);
  const gone = joinShares(memory, 7)('icap');
  gone?.join();
  gone?.say(41);
  t.ok(words.includes(42));
  shares.free(7);
  t.notOk(words.includes(42));
  t.equal(shares.take(), 7);
  t.end();
});
