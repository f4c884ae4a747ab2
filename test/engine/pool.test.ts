// The scan threads with the real engine: verdicts, the buffer's way back, deadlines, a full queue, and stopping.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { startPool } from '../../src/engine/pool.js';
import { loadSignatures } from '../../src/engine/signatures.js';
import { Failure } from '../../src/errors.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { zip } from '../fixtures/archives.js';
import { withoutRoot } from '../fixtures/other-user.js';
import { eicar } from '../fixtures/samples.js';

/** In a buffer with spare room, as uploads have it. */
function bufferOf(content: Uint8Array, spareBytes = 100): ArrayBuffer {
  const buffer = new ArrayBuffer(content.length + spareBytes);
  new Uint8Array(buffer).set(content);
  return buffer;
}

/** Of all threads of this process; one that ends meanwhile has none. */
function niceOfThreads(): number[] {
  return readdirSync('/proc/self/task').flatMap((id) => {
    try {
      const [, fields = ''] = readFileSync(`/proc/self/task/${id}/stat`, 'latin1').split(') ');
      return [Number(fields.split(' ')[16])];
    } catch {
      return [];
    }
  });
}

/** Takes the engine some hundred milliseconds: it unpacks up to its limit. */
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
    // From then on the threads have nothing else to do.
    await Promise.all([pool.scan(bufferOf(content), content.length), pool.scan(bufferOf(content), content.length)]);
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
    const pool = startPool({ threads: 1, queueLimit: 10, scanTimeoutMs: 100 });
    t.teardown(() => pool.stop());
    const usual = getPriority();
    // Until the thread is there, which may take longer than this deadline; one that needs half of it is given up afterwards.
    const isServed = async (): Promise<boolean> => {
      const startedMs = performance.now();
      const outcome = await pool.scan(bufferOf(Buffer.from('x')), 1).catch(() => null);
      return outcome?.verdict.kind === 'clean' && performance.now() - startedMs < 40;
    };
    while (!(await isServed()));
    const first = pool.scan(bufferOf(slow), slow.length);
    // It waits until another thread stands in: then it has had too little time to be told that its content is too slow.
    const second = pool.scan(bufferOf(slow), slow.length).catch((error: unknown) => error);
    const outcome = await first;
    t.match(outcome, {
      verdict: { kind: 'incomplete', reason: 'scan exceeded 100 ms' },
      starved: false,
      content: null,
    });
    t.ok(niceOfThreads().includes(Math.min(19, usual + 10)), 'the thread that is late gets what others leave');
    const late = await second;
    if (late instanceof Failure) t.match(late, { code: 'unavailable' });
    else t.match(late, { starved: true });
    const returned = outcome.content === null ? await outcome.returned : null;
    t.equal(returned?.byteLength, slow.length + 100);
    // Rejects while there is no thread for it.
    const small = (): Promise<unknown> => pool.scan(bufferOf(Buffer.from('x')), 1).catch((error: unknown) => error);
    while ((await small()) instanceof Failure);
    t.match(await small(), { verdict: { kind: 'clean' } });
    while (pool.running > 0) await new Promise((resolve) => setImmediate(resolve));
    t.equal(pool.late, 0, 'back within the grace');
    if (usual < 9) while (niceOfThreads().some((nice) => nice > usual + 9)) await new Promise(setImmediate);
  });

  t.test('a full queue refuses, an aborted wait ends, and a stop refuses what waits and ends what runs', async (t) => {
    const pool = startPool({ threads: 1, queueLimit: 3, scanTimeoutMs: 60_000 });
    const running = pool.scan(bufferOf(slow), slow.length);
    const controller = new AbortController();
    const aborted = pool.scan(bufferOf(Buffer.from('a')), 1, { signal: controller.signal });
    const waiting = pool.scan(bufferOf(Buffer.from('b')), 1);
    t.equal(pool.waiting, 2);
    const refused = { anothers: 'The scan queue is full', own: 'Too many scans of this account are waiting' };
    await t.rejects(pool.scan(bufferOf(Buffer.from('c')), 1), new Failure('unavailable', refused.own, 2));
    const others = pool.scan(bufferOf(Buffer.from('c')), 1, { account: 'another' });
    t.equal(pool.accountsWaiting, 2);
    await t.rejects(
      pool.scan(bufferOf(Buffer.from('c')), 1, { account: 'a third' }),
      new Failure('unavailable', refused.anothers, 2),
    );
    controller.abort(new Error('gone'));
    await t.rejects(aborted, new Error('gone'));
    t.equal(pool.waiting, 2);
    const stopped = pool.stop();
    for (const each of [waiting, others])
      await t.rejects(each, new Failure('unavailable', 'The server is stopping', 2));
    await t.rejects(pool.scan(bufferOf(Buffer.from('d')), 1), new Failure('unavailable', 'The server is stopping', 2));
    t.match((await running).verdict, { kind: 'incomplete', reason: /^engine limit exceeded/ });
    await stopped;
  });
});

t.test('a thread that the kernel has no room for is tried again, also when no other one is left', async (t) => {
  const program = fileURLToPath(new URL('./starved-threads.js', import.meta.url));
  const options = { encoding: 'utf8', env: { PATH: process.env['PATH'] } } as const;
  const { status, stdout, stderr } = spawnSync(...withoutRoot(process.execPath, [program]), options);
  t.equal(status, 0, stderr);
  t.equal(stdout, '0 free\n1 again\n');
});

t.test('threads that end while they load, with nothing to do, do not end the process', async (t) => {
  const module = new URL('../../src/engine/threads.js', import.meta.url).href;
  // Without their settings they can't load. When they are gone nothing is left to do, and the process ends by itself.
  const script = `const { startThreads } = await import('${module}'); startThreads({ count: 1, standIns: 0, settings: null, onFree: () => undefined });`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
  });
  t.equal(status, 0, stderr);
});
