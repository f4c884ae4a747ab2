// The addon's connections under arguments that nobody would pass, and under everything that a client may do at any moment. test/sanitize/run.sh has it with AddressSanitizer.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, readdirSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { openListener, openUnixListener } from '../../src/http/connections.js';
import { type Peer, type PeerOwner, Peers } from '../../src/peers.js';
import { processAddon } from '../../src/process-addon.js';
import { takeAllDescriptors } from '../fixtures/descriptors.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { until } from '../fixtures/until.js';

/** More of them under a sanitizer: test/sanitize/run.sh. */
const RUNS = Number(process.env['BORDER_RUNS'] ?? 300);

const addon = processAddon();
if (addon === null) throw new Error('The addon is not built');

function descriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

/** Sends back what comes, and does what a byte says. */
class Echo implements PeerOwner {
  readonly peer: Peer;
  received = 0;
  files = 0;
  isEnded = false;
  isClosed = false;

  constructor(peer: Peer) {
    this.peer = peer;
    peer.resume();
  }

  onBytes(bytes: Buffer, opened: readonly number[]): void {
    this.received += bytes.length;
    this.files += opened.length;
    for (const descriptor of opened) closeSync(descriptor);
    this.peer.write(Buffer.from(bytes));
    if (bytes.includes('p')) {
      this.peer.pause();
      setImmediate(() => this.peer.resume());
    }
    if (bytes.includes('e')) this.peer.end();
    if (bytes.includes('c')) this.peer.close();
    if (bytes.includes('d')) this.peer.destroy();
  }

  onEnd(): void {
    this.isEnded = true;
    this.peer.end();
  }

  onDrain(): void {
    // Nothing waits for it.
  }

  onClose(): void {
    if (this.isClosed) throw new Error('closed twice');
    this.isClosed = true;
  }

  retire(): void {
    this.peer.end();
  }

  finish(): void {
    this.peer.close();
  }
}

t.test('each function takes anything', async (t) => {
  const anything = fc.oneof(
    fc.anything({ withBigInt: true, withTypedArray: true, withNullPrototype: true }),
    fc.integer(),
    fc.double(),
    fc.constantFrom(0, -1, 2 ** 31, 2 ** 32, new Uint8Array(0), new Int32Array(0), new Uint32Array(1), () => undefined),
  );
  const names = [
    'readySockets',
    'watchListener',
    'waitingAt',
    'acceptPeer',
    'acceptDescriptor',
    'peerAddress',
    'receiveFrom',
    'sendTo',
    'endSending',
    'closeSocket',
    'closePoller',
    'openSharedMemory',
    'mapSharedMemory',
  ] as const;
  fc.assert(
    fc.property(fc.constantFrom(...names), fc.array(anything, { maxLength: 4 }), (name, args) => {
      try {
        const result: unknown = Reflect.apply(addon[name], addon, args);
        if (name === 'openSharedMemory') closeSync(Number(result));
      } catch (error) {
        if (!(error instanceof Error) || error.message === '') throw new Error('not an error with a text');
      }
    }),
    { numRuns: RUNS },
  );
  t.throws(() => Reflect.apply(addon.openPoller, addon, [1]), TypeError);
});

t.test('clients that do anything at any moment leave nothing behind', async (t) => {
  const folder = temporaryFolder(t);
  const before = descriptors();
  const path = join(folder, 'socket');
  const port = await freePort();
  const listeners = [
    { way: 'unix', descriptor: openUnixListener(path, 0o600) },
    { way: 'tcp', descriptor: await openListener('127.0.0.1', port) },
  ] as const;
  const owners: Echo[] = [];
  let isWild = true;
  let opened = 0;
  let takesFiles = true;
  const own = (peer: Peer): Echo | null => {
    opened += 1;
    if (isWild && opened % 17 === 0) return null;
    const owner = new Echo(peer);
    owners.push(owner);
    return owner;
  };
  const peers = new Peers(own, null, () => takesFiles);
  for (const listener of listeners) peers.listen(listener);
  const place = (isUnix: boolean) => (isUnix ? { path } : { port, host: '127.0.0.1' });
  const step = fc.oneof(
    fc.string({ unit: fc.constantFrom('a', 'p', 'a', 'e', 'c', 'd'), maxLength: 3 }),
    fc.constantFrom('x'.repeat(300_000), 'END', 'DESTROY', 'RESET', 'PAUSE', 'RESUME'),
  );
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(step, { maxLength: 6 }), async (isUnix, steps) => {
      const socket = createConnection({ ...place(isUnix), allowHalfOpen: true });
      const over = new Promise((resolve) => socket.once('close', resolve));
      // It may be half-open.
      socket.once('end', () => socket.destroy());
      socket.on('error', () => undefined).resume();
      for (const each of steps) await act(socket, each);
      socket.resume().end();
      await over;
    }),
    { numRuns: RUNS },
  );
  await until(() => peers.size === 0);
  t.ok(owners.every(({ isClosed }) => isClosed));
  isWild = false;

  for (const files of [2, 0]) {
    takesFiles = files > 0;
    const count = owners.length;
    await once(spawn('python3', ['-c', sendFiles, path], { stdio: 'ignore' }), 'exit');
    await until(() => owners.length > count && peers.size === 0);
    t.match(owners.at(-1), { received: 3, files, isEnded: true });
  }

  const open = Array.from({ length: 20 }, (_, index) =>
    createConnection(place(index % 2 === 0)).on('error', () => undefined),
  );
  await until(() => peers.size === 20);
  peers.stopListening();
  for (const owner of peers.owners()) owner.finish();
  await peers.empty();
  for (const socket of open) socket.destroy();
  // Node opens one or two of its own meanwhile, once.
  await until(() => descriptors() <= before + 2);
});

async function act(socket: Socket, step: string): Promise<void> {
  if (step === 'END') socket.end();
  else if (step === 'DESTROY') socket.destroy();
  else if (step === 'RESET' && socket.remoteAddress !== undefined) socket.resetAndDestroy();
  else if (step === 'PAUSE') socket.pause();
  else if (step === 'RESUME') socket.resume();
  else socket.write(step);
  await new Promise((resolve) => setImmediate(resolve));
}

/** Two open files with one byte, and others beside them. */
const sendFiles = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.send(b'a')
socket.send_fds(s, [b'a'], [s.fileno(), s.fileno()])
s.send(b'a')
s.shutdown(socket.SHUT_WR)
while s.recv(100): pass
`;

t.test('closed connections leave nothing in memory, and two at one place are two', async (t) => {
  const poller = addon.openPoller(() => undefined);
  const spare = await openListener('127.0.0.1', 0);
  const countOn = (times: number): void => {
    for (let time = 0; time < times; time += 1) addon.closeSocket(addon.watchListener(poller, spare));
  };
  const port = await freePort();
  const peers = new Peers((peer) => new Echo(peer));
  peers.listen({ way: 'tcp', descriptor: await openListener('127.0.0.1', port) });
  countOn(500_000);
  const before = process.memoryUsage().heapUsed;
  const sockets: Socket[] = [];
  const echo = async (socket: Socket): Promise<void> => {
    socket.write('a');
    await once(socket, 'data');
  };
  for (let count = 0; count < 4; count += 1) {
    const socket = createConnection(port, '127.0.0.1');
    sockets.push(socket);
    await echo(socket);
    if (count === 0) t.ok(process.memoryUsage().heapUsed - before < 2 ** 21, 'a table of all numbers would have 4 MB');
    // The next one is in the same place.
    countOn(4_095);
  }
  const [oldest, older, newer, newest] = sockets;
  for (const gone of [older, newest, newer, oldest]) {
    for (const socket of sockets) await echo(socket);
    if (gone !== undefined) sockets.splice(sockets.indexOf(gone), 1);
    gone?.destroy();
    await until(() => peers.size === sockets.length);
  }
  t.strictSame(peers.owners(), []);
  peers.stopListening();
  addon.closePoller(poller);
  closeSync(spare);
});

t.test('while the process has no descriptor left, connections wait', async (t) => {
  const port = await freePort();
  const listener = { way: 'tcp', descriptor: await openListener('127.0.0.1', port) } as const;
  const owners: Echo[] = [];
  const peers = new Peers((peer) => {
    const owner = new Echo(peer);
    owners.push(owner);
    return owner;
  });
  peers.listen(listener);
  const taken = takeAllDescriptors();
  // One is left for the client.
  closeSync(taken.pop() ?? -1);
  const socket = createConnection(port, '127.0.0.1');
  await once(socket, 'connect');
  // It waits in the kernel by now, and is looked at in each turn of the event loop.
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  t.equal(owners.length, 0);
  for (const descriptor of taken) closeSync(descriptor);
  await until(() => owners.length === 1);
  socket.destroy();
  peers.stopListening();
  await peers.empty();
});
