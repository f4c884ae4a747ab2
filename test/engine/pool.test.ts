// The scan threads with the real engine: verdicts, the buffer's way back, deadlines, a full queue, and stopping.
import t from 'tap';
import { startPool } from '../../src/engine/pool.js';
import { loadSignatures } from '../../src/engine/signatures.js';
import { Failure } from '../../src/errors.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';

/** In a buffer with spare room, as uploads have it. */
function bufferOf(content: Uint8Array, spareBytes = 100): ArrayBuffer {
  const buffer = new ArrayBuffer(content.length + spareBytes);
  new Uint8Array(buffer).set(content);
  return buffer;
}

/** Takes the engine seconds: it unpacks up to its limit. */
const slow = zip([{ name: 'zeros', content: Buffer.alloc(250 * 1024 * 1024) }]);

t.test('without an engine nothing is clean', async (t) => {
  const pool = startPool({ threads: 1, queueLimit: 1, scanTimeoutMs: 10_000 });
  t.teardown(() => pool.stop());
  const { verdict } = await pool.scan(bufferOf(Buffer.from('x')), 1);
  t.match(verdict, { kind: 'incomplete', reason: /^engine error: / });
});

t.test('with an engine', async (t) => {
  const signatures = loadSignatures({ directories: [ownSignaturesDirectory], scanTimeoutMs: 60_000 });
  t.teardown(() => signatures.stop());
  await signatures.ready();

  t.test('a verdict about exactly the bytes that count, and the buffer back as it was', async (t) => {
    const pool = startPool({ threads: 2, queueLimit: 10, scanTimeoutMs: 60_000 });
    t.teardown(() => pool.stop());
    const content = eicar();
    const buffer = bufferOf(content);
    const promise = pool.scan(buffer, content.length);
    t.equal(buffer.byteLength, 0, 'nobody else can write to it meanwhile');
    const outcome = await promise;
    t.strictSame(outcome.verdict, { kind: 'infected', virusName: 'Sluice.Test.EICAR.UNOFFICIAL' });
    t.ok(outcome.durationMs > 0);
    t.equal(outcome.content?.byteLength, content.length + 100);
    t.ok(Buffer.from(outcome.content ?? new ArrayBuffer(0), 0, content.length).equals(content));
    const cut = await pool.scan(bufferOf(content), content.length - 1);
    t.strictSame(cut.verdict, { kind: 'clean', encrypted: false }, 'one byte less is another content');
  });

  t.test('a scan over its deadline is incomplete at the deadline, and its buffer comes back later', async (t) => {
    const pool = startPool({ threads: 1, queueLimit: 10, scanTimeoutMs: 40 });
    t.teardown(() => pool.stop());
    const outcome = await pool.scan(bufferOf(slow), slow.length);
    t.strictSame(outcome.verdict, { kind: 'incomplete', reason: 'scan exceeded 40 ms' });
    t.equal(outcome.content, null);
    t.equal(pool.running, 1, 'the thread is still at it');
    const second = await pool.scan(bufferOf(slow), slow.length);
    t.equal(pool.running, 2, 'another thread stands in for it');
    const waiting = pool.scan(bufferOf(Buffer.from('x')), 1);
    await t.rejects(
      waiting,
      new Failure('unavailable', 'The scan queue is too long', 2),
      'the deadline counts in the queue too',
    );
    const returned = outcome.content === null ? await outcome.returned : null;
    t.equal(returned?.byteLength, slow.length + 100);
    if (second.content === null) await second.returned;
    t.equal(pool.running, 0);
    t.equal(pool.hung, 0, 'late is not hung');
    // Rejects if no thread is left.
    while ((await pool.scan(bufferOf(Buffer.from('x')), 1)).verdict.kind !== 'clean');
  });

  t.test('a full queue refuses, an aborted wait ends, and a stop refuses what waits and ends what runs', async (t) => {
    const pool = startPool({ threads: 1, queueLimit: 2, scanTimeoutMs: 60_000 });
    const running = pool.scan(bufferOf(slow), slow.length);
    const controller = new AbortController();
    const aborted = pool.scan(bufferOf(Buffer.from('a')), 1, { signal: controller.signal });
    const waiting = pool.scan(bufferOf(Buffer.from('b')), 1);
    t.equal(pool.waiting, 2);
    await t.rejects(pool.scan(bufferOf(Buffer.from('c')), 1), new Failure('unavailable', 'The scan queue is full', 2));
    controller.abort(new Error('gone'));
    await t.rejects(aborted, new Error('gone'));
    t.equal(pool.waiting, 1);
    const stopped = pool.stop();
    await t.rejects(waiting, new Failure('unavailable', 'The server is stopping', 2));
    await t.rejects(pool.scan(bufferOf(Buffer.from('d')), 1), new Failure('unavailable', 'The server is stopping', 2));
    t.match((await running).verdict, { kind: 'incomplete', reason: /^engine limit exceeded/ });
    await stopped;
  });
});
