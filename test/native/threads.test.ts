// Many threads, one engine: it is shared, replaced under running scans, and outlives the threads that used it.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { scanBuffer } from '../../src/engine/clamav/addon.js';
import { nestedZip, zip } from '../fixtures/archives.js';
import { bodySignature, databaseFolder, load } from './engine.js';

const MARK = 'a mark of this test';
const content = zip([{ name: 'a', content: Buffer.from(`x ${MARK}`) }]);

function startWorker(t: { teardown(undo: () => unknown): void }): Worker {
  const worker = new Worker(new URL('./scanning-worker.js', import.meta.url));
  t.teardown(() => worker.terminate());
  return worker;
}

async function ask(worker: Worker, order: object) {
  const answered = once(worker, 'message');
  worker.postMessage(order);
  const [answer] = await answered;
  return answer;
}

t.test('threads scan with the engine that the main thread loaded', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  const workers = Array.from({ length: 4 }, () => startWorker(t));
  const answers = await Promise.all(workers.map((worker) => ask(worker, { content, times: 200 })));
  for (const answer of answers) t.match(answer, { names: ['Test.A.UNOFFICIAL'], signatureCount: 1 });
});

t.test('threads that scan with a large engine do not load one each', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  const workers = Array.from({ length: 4 }, () => startWorker(t));
  const allScan = () => Promise.all(workers.map((worker) => ask(worker, { content, times: 20 })));
  await allScan();
  // Marks that have nothing in common, so that the engine is as large as it can be.
  const lines = Array.from({ length: 100_000 }, (_, i) =>
    bodySignature(`Test.N${i}`, createHash('sha256').update(`${i}`).digest().toString('latin1')),
  );
  const folder = databaseFolder(t, { 'a.ndb': lines.join('') });
  await load(t, [folder]);
  const before = process.memoryUsage.rss();
  for (const answer of await allScan()) t.equal(answer.signatureCount, 100_000);
  const scanningBytes = process.memoryUsage.rss() - before;
  // This engine takes 13 MiB in a fresh process (here it may find room that earlier ones have left): four would be twice the bound.
  t.ok(scanningBytes < 26 * 2 ** 20, `four threads with it take ${scanningBytes >> 20} MiB`);
});

t.test('an engine is replaced under running scans without a wrong answer', async (t) => {
  const names = ['Test.One', 'Test.Two'];
  const folders = names.map((name) => databaseFolder(t, { 'a.ndb': bodySignature(name, MARK) }));
  await load(t, folders.slice(0, 1));
  const workers = Array.from({ length: 2 }, () => startWorker(t));
  const scanning = Promise.all(workers.map((worker) => ask(worker, { content, times: 3000 })));
  let done = false;
  const finished = scanning.then((answers) => {
    done = true;
    return answers;
  });
  for (let round = 1; !done; round += 1) await load(t, [folders[round % 2] ?? '']);
  for (const answer of await finished) {
    for (const name of answer.names) t.ok(names.includes(name.replace('.UNOFFICIAL', '')), name);
  }
});

t.test('the engine outlives the threads that scanned with it', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  for (let round = 0; round < 10; round += 1) {
    const worker = startWorker(t);
    const exited = once(worker, 'exit');
    t.match(await ask(worker, { content, times: 3, exit: true }), { names: ['Test.A.UNOFFICIAL'] });
    await exited;
  }
  t.equal(scanBuffer(content).virusName, 'Test.A.UNOFFICIAL');
});

/** The long run has a thousand. */
const THREADS_EACH_FOR_ONE_SCAN = Number(process.env['THREADS'] ?? 40);

t.test('threads that come and go, each for one scan, leave nothing wrong behind', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  const before = readdirSync('/proc/self/task').length;
  for (let made = 0; made < THREADS_EACH_FOR_ONE_SCAN; made += 4) {
    const answers = Array.from({ length: 4 }, async (_, index) => {
      const worker = new Worker(new URL('./scanning-worker.js', import.meta.url));
      const exited = once(worker, 'exit');
      const { names } = await ask(worker, { content, times: 1, exit: index % 2 === 0 });
      if (index % 2 === 1) await worker.terminate();
      await exited;
      return names;
    });
    for (const names of await Promise.all(answers)) t.strictSame(names, ['Test.A.UNOFFICIAL']);
  }
  t.ok(readdirSync('/proc/self/task').length <= before + 1, 'no thread stays');
});

t.test('a thread that is terminated during a scan ends after it', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  for (let round = 0; round < 5; round += 1) {
    const worker = startWorker(t);
    await ask(worker, { content, times: 1 });
    worker.postMessage({ content, times: 100_000 });
    await worker.terminate();
  }
  t.equal(scanBuffer(content).virusName, 'Test.A.UNOFFICIAL');
});

t.test('the stack of a thread suffices for the deepest nesting that is allowed', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  const answer = await ask(startWorker(t), { content: nestedZip(Buffer.from('harmless'), 30), times: 1 });
  t.match(answer.last, { alerts: ['Heuristics.Limits.Exceeded.MaxRecursion'] });
});
