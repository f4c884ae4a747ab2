// What a connection has sent together, and how much of it is taken before others have their turn.
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { openUnixListener } from '../src/http/connections.js';
import { PIPELINED_AT_ONCE, PUT_OFF_MS } from '../src/limits.js';
import { Connection } from '../src/listening.js';
import { Peers } from '../src/peers.js';
import { temporaryFolder } from './fixtures/folder.js';

const COMMANDS = 1_000;

/** Turns of the event loop so far. */
let turn = 0;
let isOver = false;
function countTurns(): void {
  turn += 1;
  if (!isOver) setImmediate(countTurns);
}

/** Each of its commands is a byte. */
class Commands extends Connection {
  readonly #said: string[];
  readonly #onCommand: () => unknown;
  protected readonly parser = {
    isHeld: false,
    write: ([first = 0]: Uint8Array): number => {
      this.#onCommand();
      this.#said.push(`${turn} ${String.fromCharCode(first)}`);
      return 1;
    },
    stop: () => undefined,
  };

  constructor(
    peer: ConstructorParameters<typeof Connection>[0],
    said: string[],
    onCommand: () => unknown = () => undefined,
  ) {
    super(peer, 60_000);
    this.#said = said;
    this.#onCommand = onCommand;
  }

  onBytes(bytes: Buffer): void {
    this.take(bytes);
  }

  protected mustWait(): boolean {
    return false;
  }

  protected onCut(): void {
    this.#said.push('cut');
    this.peer.close();
  }

  onDrain(): void {
    this.pump();
  }

  onDue(): void {
    this.peer.destroy();
  }

  retire(): void {
    this.peer.end();
  }

  finish(): void {
    this.peer.close();
  }
}

t.before(() => countTurns());
t.teardown(() => {
  isOver = true;
});

t.test('what was sent together is taken a few commands at a time, all of it, and in its order', async (t) => {
  const path = join(temporaryFolder(t), 'commands.sock');
  const said: string[] = [];
  const peers = new Peers((peer) => new Commands(peer, said));
  peers.listen({ way: 'unix', descriptor: openUnixListener(path, 0o600) });
  t.teardown(() => peers.stopListening());
  const client = createConnection({ path });
  const text = Array.from({ length: COMMANDS }, (_, index) => 'abcdefg'[index % 7]).join('');
  client.end(text);
  client.resume();
  await once(client, 'close');
  t.equal(said.pop(), 'cut');
  t.equal(said.map((each) => each.slice(-1)).join(''), text);
  const inTurns = new Map<number, number>();
  for (const each of said.map((word) => Number.parseInt(word, 10))) inTurns.set(each, (inTurns.get(each) ?? 0) + 1);
  const most = Math.max(...inTurns.values());
  // What has come is taken in one phase of a turn, what was put off in another one.
  t.ok(most <= 2 * PIPELINED_AT_ONCE, `${most} in one turn`);
});

t.test('what many connections have sent together takes little of each turn of all others', async (t) => {
  const path = join(temporaryFolder(t), 'commands.sock');
  const CONNECTIONS = 20;
  const said: string[][] = [];
  // With each of these the time is over that all of them have in one turn.
  const wait = (): void => {
    const end = performance.now() + PUT_OFF_MS;
    while (performance.now() < end);
  };
  const peers = new Peers((peer) => {
    const words: string[] = [];
    said.push(words);
    return new Commands(peer, words, () => words.length >= PIPELINED_AT_ONCE && wait());
  });
  peers.listen({ way: 'unix', descriptor: openUnixListener(path, 0o600) });
  t.teardown(() => peers.stopListening());
  const clients = Array.from({ length: CONNECTIONS }, () => createConnection({ path }));
  for (const client of clients) client.end('a'.repeat(4 * PIPELINED_AT_ONCE)).resume();
  await Promise.all(clients.map((client) => once(client, 'close')));
  // The first of them were taken as they came.
  const later = said.flatMap((words) => [
    ...new Set(words.slice(PIPELINED_AT_ONCE, -1).map((word) => Number.parseInt(word, 10))),
  ]);
  const inTurns = new Map<number, number>();
  for (const each of later) inTurns.set(each, (inTurns.get(each) ?? 0) + 1);
  // One began before the turn was counted, one after it.
  t.ok(Math.max(...inTurns.values()) <= 2, `${Math.max(...inTurns.values())} connections in one turn`);
});
