// The bell of scan threads: what is rung is heard, whichever way it goes, and nothing is after its stop.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { startBell } from '../../../src/engine/threads/bell.js';
import { until } from '../../fixtures/until.js';

const program = fileURLToPath(new URL('./bell-program.js', import.meta.url));
const attender = fileURLToPath(new URL('./bell-attender.js', import.meta.url));
const THREADS = 3;
const RINGS = 20_000;
const QUIET_MS = 100;
/** Of the word, while it is attended. */
const ATTENDED = 2;

for (const [way, addon] of [
  ['by the addon', undefined],
  ['by the word alone, where there is no addon', null],
] as const) {
  t.test(`${way}, the last ring of each thread is heard after all that it did before`, async (t) => {
    const done = new Int32Array(new SharedArrayBuffer(THREADS * Int32Array.BYTES_PER_ELEMENT));
    let heard = 0;
    let seen: number[] = [];
    const bell = startBell(() => {
      heard += 1;
      seen = [...done];
    }, addon);
    t.equal(bell.rope.number === null, addon === null);
    const threads = Array.from(
      { length: THREADS },
      (_, index) => new Worker(program, { workerData: { rope: bell.rope, done, index, rings: RINGS } }),
    );
    t.teardown(() => Promise.all(threads.map((thread) => thread.terminate())));
    await Promise.all(threads.map((thread) => once(thread, 'exit')));
    await until(() => seen.every((count) => count === RINGS));
    t.ok(heard > 0 && heard <= THREADS * RINGS + 2, 'and no ring twice');

    bell.stop();
    await sleep(QUIET_MS);
    const before = heard;
    const late = new Worker(program, { workerData: { rope: bell.rope, done, index: 0, rings: 10 } });
    await once(late, 'exit');
    await sleep(QUIET_MS);
    t.equal(heard, before, 'nothing is heard after the stop');
  });
}

t.test('what rings while it is attended, and just when that ends, is heard', async (t) => {
  const counts = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
  const [done, heard] = [counts.subarray(0, 1), counts.subarray(1)];
  let heardAttended = 0;
  const bell = startBell(() => {
    if (Atomics.load(bell.rope.word, 0) === ATTENDED) heardAttended += 1;
    const count = Atomics.load(done, 0);
    // The next ring comes about when the last turn of it does.
    bell.attend();
    if (count % 4 !== 0) bell.leave();
    Atomics.store(heard, 0, count);
    Atomics.notify(heard, 0);
  });
  t.teardown(() => bell.stop());
  bell.attend();
  t.equal(Atomics.load(bell.rope.word, 0), ATTENDED, 'nobody need wake the event loop');
  bell.leave();
  await until(() => Atomics.load(bell.rope.word, 0) === 0);

  const thread = new Worker(program, { workerData: { rope: bell.rope, done, index: 0, rings: RINGS, heard } });
  t.teardown(() => thread.terminate());
  await until(() => heard[0] === RINGS);
  t.ok(heardAttended > 0 && heardAttended < RINGS, `${heardAttended} of them while it was attended`);
});

t.test(
  'a bell that is attended may be stopped, also from within its call, and a thread that attends one may end',
  async (t) => {
    let heard = 0;
    const bell = startBell(() => {
      heard += 1;
      bell.stop();
    });
    bell.attend();
    const done = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const ringing = { rope: bell.rope, done, index: 0, rings: 1 };
    await once(new Worker(program, { workerData: ringing }), 'exit');
    await until(() => heard === 1);
    bell.attend();
    bell.stop();
    await once(new Worker(program, { workerData: ringing }), 'exit');
    await sleep(QUIET_MS);
    t.equal(heard, 1, 'nothing is heard after the stop');

    const [code] = await once(new Worker(attender, { workerData: null }), 'exit');
    t.equal(code, 0, 'and its thread has ended as usual');
  },
);
