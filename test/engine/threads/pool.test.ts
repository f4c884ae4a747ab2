// The scan threads with the real engine: verdicts, the content's way there and back, deadlines, a full queue, and stopping.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { availableCores } from '../../../src/config/config.js';
import { loadSignatures } from '../../../src/engine/signatures.js';
import { ScanPool, scanOnce } from '../../../src/engine/threads/pool.js';
import type { ThreadScan } from '../../../src/engine/threads/thread-scan.js';
import { Failure, Unavailable } from '../../../src/errors.js';
import { ownSignaturesDirectory } from '../../../src/paths.js';
import { processAddon } from '../../../src/process-addon.js';
import { zip } from '../../fixtures/archives.js';
import { withoutRoot } from '../../fixtures/other-user.js';
import { eicar } from '../../fixtures/samples.js';
import { sharedBytes } from '../../fixtures/shared-bytes.js';
import { until } from '../../fixtures/until.js';
import { hearingTurns } from './hearing-turns.js';

/** With spare room, as uploads have it. */
const bufferOf = (content: Uint8Array): Uint8Array<SharedArrayBuffer> => sharedBytes(content, 100);

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

/** What one thread is given in one turn of the event loop: answers are taken 16 times, two at most, and two were there at its begin. */
const MOST_OF_TURN = 34;

/** Takes the engine some hundred milliseconds: it unpacks up to its limit. */
const slow = zip([{ name: 'zeros', content: Buffer.alloc(250 * 1024 * 1024) }]);

/** What is said to the bells of this process from now on: true, that something is about to ring; false, that nothing is. */
function noteAttending(t: Test): boolean[] {
  const addon = processAddon();
  if (addon === null) throw new Error('there is no addon');
  const { attendBell } = addon;
  const said: boolean[] = [];
  addon.attendBell = (number, micros) => {
    said.push(micros > 0);
    attendBell(number, micros);
  };
  t.teardown(() => {
    addon.attendBell = attendBell;
  });
  return said;
}

t.test('without an engine nothing is clean', async (t) => {
  const pool = new ScanPool({ threads: 1, queueLimit: 1, scanTimeoutMs: 10_000 });
  t.teardown(() => pool.stop());
  const { verdict } = await scanOnce(pool, bufferOf(Buffer.from('x')), 1);
  t.match(verdict, { kind: 'incomplete', reason: /^engine error: / });
});

t.test('the event loop stays awake for a short scan that a thread is at, until that has ended', async (t) => {
  const attended = noteAttending(t);
  const pool = new ScanPool({ threads: 1, queueLimit: 1, scanTimeoutMs: 10_000 });
  t.teardown(() => pool.stop());
  await scanOnce(pool, bufferOf(Buffer.alloc(1024)), 1024);
  const hasSeveralCores = availableCores() > 1;
  t.equal(attended[0], hasSeveralCores, 'at its begin');
  t.equal(attended.at(-1), false, 'and no longer than that');
  attended.length = 0;
  await scanOnce(pool, bufferOf(Buffer.alloc(32 * 1024)), 32 * 1024);
  t.notOk(attended.includes(true), 'not for one that takes longer');
});

t.test('with an engine', async (t) => {
  const signatures = loadSignatures({ directories: [ownSignaturesDirectory], scanTimeoutMs: 60_000 });
  t.teardown(() => signatures.stop());
  await signatures.ready();

  t.test('a verdict about exactly the bytes that count, and the content as it was', async (t) => {
    const pool = new ScanPool({ threads: 2, queueLimit: 10, scanTimeoutMs: 60_000 });
    t.teardown(() => pool.stop());
    const content = eicar();
    // From then on the threads have nothing else to do.
    await Promise.all([
      scanOnce(pool, bufferOf(content), content.length),
      scanOnce(pool, bufferOf(content), content.length),
    ]);
    const buffer = bufferOf(content);
    const promise = scanOnce(pool, buffer, content.length);
    const outcome = await promise;
    t.strictSame(outcome.verdict, { kind: 'infected', virusName: 'Sluice.Test.EICAR.UNOFFICIAL' });
    t.ok(outcome.durationMs > 0);
    t.equal(outcome.returned, null);
    t.ok(content.equals(buffer.subarray(0, content.length)));
    const cut = await scanOnce(pool, bufferOf(content), content.length - 1);
    t.strictSame(cut.verdict, { kind: 'clean', encrypted: false }, 'one byte less is another content');
  });

  t.test('in a turn of the event loop that takes long, threads get scan after scan, up to a bound', async (t) => {
    const pool = new ScanPool({ threads: 1, threadsMost: 1, queueLimit: 100_000, scanTimeoutMs: 60_000 });
    t.teardown(() => pool.stop());
    const content = bufferOf(Buffer.from('x'));
    await scanOnce(pool, content, 1);
    let begun = 0;
    const heard = hearingTurns(pool, () => {
      begun += 1;
    });
    const scans: Promise<unknown>[] = [];
    // A thread has room for two. Nothing of this is asynchronous.
    const endMs = performance.now() + 10_000;
    while (begun < 5 && performance.now() < endMs) {
      scans.push(scanOnce(heard, content, 1));
      const pauseMs = performance.now() + 1;
      while (performance.now() < pauseMs);
    }
    t.ok(begun >= 5, `${begun} of ${scans.length} have begun`);
    for (let count = 0; count < 150; count += 1) {
      scans.push(scanOnce(heard, content, 1));
      const pauseMs = performance.now() + 1;
      while (performance.now() < pauseMs);
    }
    t.ok(begun <= MOST_OF_TURN, `${begun} of ${scans.length} have begun`);
    await Promise.all(scans);
    t.equal(begun, scans.length);
  });

  t.test('a scan over its deadline is incomplete at the deadline, and its content comes back later', async (t) => {
    const pool = new ScanPool({ threads: 1, queueLimit: 10, scanTimeoutMs: 100 });
    t.teardown(() => pool.stop());
    const usual = getPriority();
    // Until the thread is there, which may take longer than this deadline; one that needs half of it is given up afterwards.
    const isServed = async (): Promise<boolean> => {
      const startedMs = performance.now();
      const outcome = await scanOnce(pool, bufferOf(Buffer.from('x')), 1).catch(() => null);
      return outcome?.verdict.kind === 'clean' && performance.now() - startedMs < 40;
    };
    await until(isServed);
    const first = scanOnce(pool, bufferOf(slow), slow.length);
    // It waits until another thread stands in: then it has had too little time for the pool to call its content too slow.
    const second = scanOnce(pool, bufferOf(slow), slow.length).catch((error: unknown) => error);
    const outcome = await first;
    t.match(outcome, {
      verdict: { kind: 'incomplete', reason: 'scan exceeded 100 ms' },
      starved: false,
    });
    t.ok(niceOfThreads().includes(Math.min(19, usual + 10)), 'the thread that is late gets what others leave');
    const late = await second;
    if (late instanceof Failure) t.match(late, { code: 'unavailable' });
    else t.match(late, { starved: true });
    t.ok(outcome.returned);
    await outcome.returned;
    // Rejects while there is no thread for it.
    const small = (): Promise<unknown> =>
      scanOnce(pool, bufferOf(Buffer.from('x')), 1).catch((error: unknown) => error);
    await until(async () => !((await small()) instanceof Failure));
    t.match(await small(), { verdict: { kind: 'clean' } });
    await until(() => pool.running === 0);
    t.equal(pool.late, 0, 'back within the grace');
    if (usual < 9) await until(() => !niceOfThreads().some((nice) => nice > usual + 9));
  });

  t.test('a full queue refuses, an aborted wait ends, and a stop refuses what waits and ends what runs', async (t) => {
    const pool = new ScanPool({ threads: 1, queueLimit: 3, scanTimeoutMs: 60_000 });
    const running = scanOnce(pool, bufferOf(slow), slow.length);
    const asked: ThreadScan[] = [];
    const noting = {
      policy: pool.policy,
      ask(scan: ThreadScan): void {
        asked.push(scan);
        pool.ask(scan);
      },
    };
    void scanOnce(noting, bufferOf(Buffer.from('a')), 1);
    const waiting = scanOnce(pool, bufferOf(Buffer.from('b')), 1);
    t.equal(pool.waiting, 2);
    const attended = noteAttending(t);
    await t.rejects(scanOnce(pool, bufferOf(Buffer.from('c')), 1), new Unavailable('queueShareFull'));
    const others = scanOnce(pool, bufferOf(Buffer.from('c')), 1, { account: 'another' });
    t.equal(pool.accountsWaiting, 2);
    await t.rejects(
      scanOnce(pool, bufferOf(Buffer.from('c')), 1, { account: 'a third' }),
      new Unavailable('queueFull'),
    );
    t.notOk(attended.includes(true), 'no answer is about to come');
    t.same(
      asked.map((scan) => pool.leave(scan)),
      [true],
    );
    t.equal(pool.waiting, 2);
    const stopped = pool.stop();
    for (const each of [waiting, others]) await t.rejects(each, new Unavailable('stopping'));
    await t.rejects(scanOnce(pool, bufferOf(Buffer.from('d')), 1), new Unavailable('stopping'));
    t.match((await running).verdict, { kind: 'incomplete', reason: /^engine limit exceeded/ });
    await stopped;
  });
});

t.test('a thread that the kernel has no room for is tried again, also when no other one is left', async (t) => {
  const program = fileURLToPath(new URL('./starved-threads.js', import.meta.url));
  const options = { encoding: 'utf8', env: { PATH: process.env['PATH'] } } as const;
  const { status, stdout, stderr } = spawnSync(...withoutRoot(process.execPath, [program]), options);
  t.equal(status, 0, stderr);
  t.match(
    stdout,
    /^(A scan thread can't be started: EAGAIN: no further thread or process may be started\. [^\n]*TasksMax=[^\n]*\n)+0 free, a problem\n/,
  );
  t.match(
    stdout,
    /\n1 again, no problem\nThe sandbox can't be tried: Resource temporarily unavailable: .*\n2 large\n$/,
  );
});

t.test('threads that end while they load, with nothing to do, do not end the process', async (t) => {
  const module = new URL('../../../src/engine/threads/thread-set.js', import.meta.url).href;
  // Without their settings they can't load. When they are gone nothing is left to do, and the process ends by itself.
  const script = `const { ThreadSet } = await import('${module}');
    const nothing = () => undefined;
    new ThreadSet({ count: 1, most: 1, keepMs: 1000, settings: null, bell: null, places: [], onIdle: nothing, onDied: nothing, onLack: nothing });`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
  });
  t.equal(status, 0, stderr);
});
