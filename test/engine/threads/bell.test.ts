// The bell of scan threads: what is rung is heard, whichever way it goes, and nothing is after its stop.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { startBell } from '../../../src/engine/threads/bell.js';
import { until } from '../../fixtures/until.js';

const program = fileURLToPath(new URL('./bell-program.js', import.meta.url));
const THREADS = 3;
const RINGS = 20_000;
const QUIET_MS = 100;

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
