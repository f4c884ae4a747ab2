// What is read of bodies behind a refusal: at a bounded rate, in turn by address; and nothing of a large one behind its whole answer.
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { type Drain, type Drained, Drains } from '../../src/http/bodies.js';
import { chooseLibrary, startServer } from '../../src/http/server.js';
import {
  DRAIN_BURST_BYTES,
  DRAIN_BYTES,
  DRAIN_BYTES_PER_SECOND,
  DRAIN_SHORT_BYTES,
  DRAIN_SILENCE_MS,
  DRAIN_TURN_MS,
  DRAIN_TURN_READS,
} from '../../src/limits.js';
import { librariesHere } from '../fixtures/libraries.js';
import { openRaw } from '../fixtures/raw-http.js';
import { until } from '../fixtures/until.js';

/** What one read of a socket brings at most. */
const READ_BYTES = 512 * 1024;
const SECONDS = 4;

/** Who always has more to send: reads as often as it may. */
class Sender implements Drained {
  readonly isVouchedFor: boolean;
  readonly #address: string;
  isPaused = false;
  isOver = false;
  bytes = 0;
  drain: Drain | null = null;

  constructor(address: string, isVouchedFor = false) {
    this.#address = address;
    this.isVouchedFor = isVouchedFor;
  }

  remoteAddress(): string {
    return this.#address;
  }

  pauseBody(): void {
    this.isPaused = true;
  }

  resumeBody(): void {
    this.isPaused = false;
  }

  endDrain(): void {
    this.isOver = true;
  }

  /** Returns how much was read. */
  read(): number {
    if (this.isPaused || this.isOver) return 0;
    this.bytes += READ_BYTES;
    this.drain?.read(READ_BYTES);
    return READ_BYTES;
  }
}

function begin(drains: Drains, senders: readonly Sender[]): void {
  for (const sender of senders) sender.drain = drains.begin(sender, null, false);
}

const sum = (senders: readonly Sender[]): number => senders.reduce((total, { bytes }) => total + bytes, 0);

t.test('all together have a bounded rate, a turn reads a bounded number of them, and addresses share it', (t) => {
  let nowMs = 0;
  const drains = new Drains(
    (address) => address,
    () => nowMs,
  );
  const many = Array.from({ length: 100 }, () => new Sender('192.0.2.1'));
  const one = new Sender('192.0.2.2');
  const account = new Sender('192.0.2.1', true);
  const senders = [...many, one, account];
  begin(drains, senders);
  // The first read of each can't be held back.
  for (const sender of senders) sender.read();
  t.equal(sum(senders), senders.length * READ_BYTES);
  for (const sender of senders) sender.read();
  t.ok(senders.every(({ isPaused }) => isPaused));
  const before = sum(senders);
  const [manyBefore, oneBefore] = [sum(many), one.bytes];
  const turns = (SECONDS * 1000) / DRAIN_TURN_MS;
  for (let turn = 0; turn < turns; turn += 1) {
    nowMs += DRAIN_TURN_MS;
    drains.serve();
    const read = senders.filter((sender) => sender.read() > 0).length;
    if (read > DRAIN_TURN_READS) t.fail(`${read} of one turn`);
  }
  const bytes = sum(senders) - before;
  const bound = SECONDS * DRAIN_BYTES_PER_SECOND + DRAIN_TURN_READS * READ_BYTES;
  t.ok(bytes <= bound, `${bytes} of ${bound} bytes`);
  t.ok(sum(senders) + DRAIN_BURST_BYTES >= SECONDS * DRAIN_BYTES_PER_SECOND, 'and they have all of it');
  t.ok(
    one.bytes - oneBefore >= 0.45 * (sum(many) - manyBefore),
    'one connection has half of what a hundred of another address have',
  );
  t.ok(account.bytes >= 0.9 * one.bytes, 'and an account as much as the strangers of its address');
  for (const { drain } of senders) drain?.stop();
  t.end();
});

t.test('the rest of a short body is read also where others have used up all that there is', (t) => {
  const drains = new Drains(
    (address) => address,
    () => 0,
  );
  const [long, short] = [new Sender('192.0.2.1'), new Sender('192.0.2.2')];
  begin(drains, [long]);
  while (!long.isPaused) long.read();
  short.drain = drains.begin(short, DRAIN_SHORT_BYTES, false);
  short.read();
  t.notOk(short.isPaused);
  const longer = new Sender('192.0.2.3');
  longer.drain = drains.begin(longer, DRAIN_SHORT_BYTES + 1, false);
  t.ok(longer.isPaused);
  for (const { drain } of [long, short, longer]) drain?.stop();
  t.end();
});

t.test('where little comes nobody waits, and each has an end', (t) => {
  const drains = new Drains(
    (address) => address,
    () => 0,
  );
  const sender = new Sender('192.0.2.1');
  begin(drains, [sender]);
  for (let read = 0; (read + 1) * READ_BYTES < DRAIN_BURST_BYTES; read += 1) sender.read();
  t.notOk(sender.isPaused);
  sender.read();
  t.ok(sender.isPaused, 'until more is there than may come at once');
  sender.drain?.read(DRAIN_BYTES);
  t.ok(sender.isOver);
  sender.drain?.stop();
  t.end();
});

t.test('who is silent has the answer; that the process stood still is no silence', async (t) => {
  const drains = new Drains(
    (address) => address,
    () => 0,
  );
  const sender = new Sender('192.0.2.1');
  begin(drains, [sender]);
  await nextTurn();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * DRAIN_SILENCE_MS);
  // Timers come before what is read, in each turn.
  await nextTurn();
  await nextTurn();
  t.notOk(sender.isOver);
  await until(() => sender.isOver);
  sender.drain?.stop();
});

t.test('one that has left is not served, and takes no turn', (t) => {
  let nowMs = 0;
  const drains = new Drains(
    (address) => address,
    () => nowMs,
  );
  const [left, other] = [new Sender('192.0.2.1'), new Sender('192.0.2.2')];
  begin(drains, [left, other]);
  for (const { drain } of [left, other]) drain?.read(DRAIN_BURST_BYTES);
  left.drain?.stop();
  nowMs += 1_000;
  drains.serve();
  t.ok(left.isPaused);
  t.notOk(other.isPaused);
  other.drain?.stop();
  t.end();
});

const LARGE_BYTES = 32 * 1024 * 1024;
const SMALL_BYTES = 60_000;

for (const name of await librariesHere()) {
  t.test(
    `${name}: behind its whole answer the rest of a large body is not read, and that of a small one is`,
    async (t) => {
      const server = await startServer({
        library: await chooseLibrary(name),
        host: '127.0.0.1',
        port: 0,
        handle: (exchange) => exchange.reply({ status: 401, body: '{}' }),
        onEnd: () => undefined,
      });
      t.teardown(() => server.stop(0));
      const head = (bytes: number): string => `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`;
      const large = await openRaw(server.port);
      t.teardown(() => large.end());
      await large.send(`${head(LARGE_BYTES)}x`);
      t.match(await large.answer(), { status: 401 }, 'a client that waits for it has its answer');
      let isTaken = false;
      void large.send(Buffer.alloc(LARGE_BYTES - 1)).then(() => {
        isTaken = !large.socket.destroyed;
      });

      const small = await openRaw(server.port);
      t.teardown(() => small.end());
      for (let round = 0; round < 2; round += 1) {
        await small.send(`${head(SMALL_BYTES)}x`);
        t.match(await small.answer(), { status: 401 });
        await small.send(Buffer.alloc(SMALL_BYTES - 1));
      }
      await large.closed();
      t.notOk(isTaken, 'it ends before the server has read it');
    },
  );
}
