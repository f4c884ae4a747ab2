// How a scan thread sleeps and is woken: no change of the word is slept over, by the addon and without it.
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { ASLEEP, sleeper, wakeThread } from '../../../src/engine/threads/doze.js';
import { ENDED, TURN } from '../../../src/engine/threads/ring.js';
import { processAddon } from '../../../src/process-addon.js';

const CHANGES = 20_000;
const PAUSE_EVERY = 50;
const pause = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
/** They take half a second; a thread that only looks by itself would take an hour and a half. */
const PATIENCE_MS = 60_000;
const doze = new URL('../../../src/engine/threads/doze.js', import.meta.url).href;
const loader = new URL('../../../src/process-addon.js', import.meta.url).href;

/** A thread that repeats each change of the word in another one, and sleeps in between. */
function startThread(words: Int32Array, withAddon: boolean, staysAwake: boolean): Worker {
  const code = `
    const { workerData: words } = require('node:worker_threads');
    Promise.all([import(${JSON.stringify(doze)}), import(${JSON.stringify(loader)})]).then(([{ sleeper }, { processAddon }]) => {
      const sleep = sleeper(words, ${staysAwake}, ${withAddon} ? processAddon() : null);
      for (let seen = 0; ; ) {
        const now = Atomics.load(words, ${TURN});
        if (now === seen) { sleep(seen); continue; }
        seen = now;
        Atomics.store(words, ${ENDED}, seen);
        Atomics.notify(words, ${ENDED});
      }
    });
  `;
  return new Worker(code, { eval: true, workerData: words });
}

for (const [how, withAddon, staysAwake] of [
  ['by the addon', true, false],
  ['by the addon, awake at first', true, true],
  ['without it', false, true],
] as const) {
  t.test(`${CHANGES} changes, each of which a thread must see before the next one, ${how}`, async (t) => {
    const words = new Int32Array(new SharedArrayBuffer(64));
    const addon = withAddon ? processAddon() : null;
    t.equal(addon !== null, withAddon);
    const thread = startThread(words, withAddon, staysAwake);
    let slept = 0;
    const begunMs = performance.now();
    for (let change = 1; change <= CHANGES && performance.now() - begunMs < PATIENCE_MS; change += 1) {
      // Often long enough for it to fall asleep, and often about as long as that takes.
      if (change % PAUSE_EVERY === 0) Atomics.wait(pause, 0, 0, (change / PAUSE_EVERY) % 2 === 0 ? 1 : 0.05);
      if (Atomics.load(words, ASLEEP) === 1) slept += 1;
      Atomics.store(words, TURN, change);
      wakeThread(words, addon);
      while (Atomics.load(words, ENDED) !== change) Atomics.wait(words, ENDED, change - 1, 10_000);
    }
    t.equal(Atomics.load(words, ENDED), CHANGES, 'all of them were seen');
    t.ok(slept > 0 && slept < CHANGES, `asleep ${slept} times`);
    const startedMs = performance.now();
    const ended = thread.terminate();
    wakeThread(words, addon);
    await ended;
    t.ok(performance.now() - startedMs < 10_000, 'a sleeping thread ends');
  });
}

t.test(
  'a waker that was held up until the thread is about to sleep again leaves the next one to wake it',
  async (t) => {
    const words = new Int32Array(new SharedArrayBuffer(64));
    let wakes = 0;
    const waking = {
      wakeWord(): void {
        wakes += 1;
      },
      awaitWord: (): boolean => false,
      sleepOnWord: (): void => undefined,
    };
    const sleepOnWord = (): void => {
      wakeThread(words, waking);
      wakes = 0;
      wakeThread(words, waking);
    };
    sleeper(words, true, { ...waking, sleepOnWord })(0);
    t.equal(wakes, 1);
    wakeThread(words, waking);
    t.equal(wakes, 1, 'it is awake');
  },
);

t.test('a thread that stays awake sees a change itself, and sleeps when none has come', async (t) => {
  const words = new Int32Array(new SharedArrayBuffer(64));
  const addon = processAddon();
  if (addon === null) throw new Error('there is no addon');
  let slept = 0;
  const sleepOnWord = (): void => {
    slept += 1;
  };
  const wait = (staysAwake: boolean, seen: number): void => sleeper(words, staysAwake, { ...addon, sleepOnWord })(seen);
  wait(true, 1);
  t.equal(slept, 0, 'it has changed');
  t.equal(Atomics.load(words, ASLEEP), 0, 'and nobody need wake it');
  wait(true, 0);
  t.equal(slept, 1, 'it has not');
  wait(false, 1);
  t.equal(slept, 2, 'a thread that does not stay awake leaves the look to the kernel');
});
