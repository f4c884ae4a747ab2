// A child process of the tests: it gets into one stage of the engine's life and ends there, in the way that its arguments name.
import { Worker } from 'node:worker_threads';
import { defaultEngineLimits, engineInfo, scanBuffer } from '../../src/engine/clamav/addon.js';
import { processAddon } from '../../src/process-addon.js';
import { loadEngine } from './engine.js';

const [stage, databases, temporaryDirectory] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined) throw new Error('usage: stage databases temporary');
const options = { directories: [databases], temporaryDirectory, limits: defaultEngineLimits };
/** Of the progress. */
const READ = 6 / 7;
const content = Buffer.alloc(4 * 1024 * 1024, 'text ');

function scanningWorker(): Promise<Worker> {
  const worker = new Worker(new URL('./scanning-worker.js', import.meta.url));
  return new Promise((resolve) => worker.once('online', () => resolve(worker)));
}

function endedThread(of: string): Promise<unknown> {
  const worker = new Worker(new URL(import.meta.url), { argv: [of, databases, temporaryDirectory] });
  return new Promise((resolve) => worker.once('exit', resolve));
}

const stages: Record<string, () => unknown> = {
  'before anything is loaded': () => {
    if (engineInfo() === null) process.exit(0);
  },
  'when a load begins': async () => {
    void loadEngine(options);
    setImmediate(() => process.exit(0));
  },
  'while signatures are read': () => loadEngine(options, () => process.exit(0)),
  'while signatures are compiled': () =>
    loadEngine(options, (fraction) => {
      if (fraction > READ) process.exit(0);
    }),
  'when a load has ended': () => loadEngine(options).then(() => process.exit(0)),
  'by itself after a load': () => loadEngine(options),
  'right after a scan': async () => {
    await loadEngine(options);
    scanBuffer(content);
    process.exit(0);
  },
  'while a thread scans': async () => {
    await loadEngine(options);
    const worker = await scanningWorker();
    worker.postMessage({ content, times: 1000 });
    setTimeout(() => process.exit(0), 50);
  },
  'while a thread scans and another engine loads': async () => {
    await loadEngine(options);
    const worker = await scanningWorker();
    worker.postMessage({ content, times: 1000 });
    await loadEngine(options, () => process.exit(0));
  },
  'while a replaced engine waits for its last scan': async () => {
    await loadEngine(options);
    const worker = await scanningWorker();
    worker.postMessage({ content, times: 1000 });
    await loadEngine(options);
    process.exit(0);
  },
  'with a thread that ends while it polls': () => endedThread('in a thread: poll and leave'),
  'in a thread: poll and leave': () => {
    processAddon()?.openPoller(() => undefined);
    setImmediate(() => process.exit(0));
  },
  'with a thread that ends while it loads': async () => {
    await endedThread('in a thread: load and leave');
    await loadEngine(options);
    scanBuffer(content);
  },
  'in a thread: load and leave': () => loadEngine(options, () => process.exit(0)),
  'by an uncaught error while it loads': () => {
    void loadEngine(options);
    setImmediate(() => {
      throw new Error('on purpose');
    });
  },
};

const enter = stages[stage ?? ''];
if (enter === undefined) throw new Error(`There is no stage "${stage}"`);
await enter();
