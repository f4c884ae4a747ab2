// How a scan thread begins: in Node 20 a thread that is ended while require() links an ES module ends the whole process.
import { once } from 'node:events';
import { createRequire } from 'node:module';
import type { Worker, WorkerOptions } from 'node:worker_threads';
import t from 'tap';
import { startBell } from '../../../src/engine/threads/bell.js';
import { openThreadSlot } from '../../../src/engine/threads/thread-slot.js';
import { scanWorkerPath } from '../../../src/paths.js';

const library: { Worker: new (program: string, options: WorkerOptions) => Worker } = createRequire(import.meta.url)(
  'node:worker_threads',
);

t.test('a thread starts, and nothing in it can load an ES module by require()', async (t) => {
  const started: WorkerOptions[] = [];
  const { Worker } = library;
  library.Worker = class extends Worker {
    constructor(program: string, options: WorkerOptions) {
      super(program, options);
      started.push(options);
    }
  };
  t.teardown(() => {
    library.Worker = Worker;
  });
  const bell = startBell(() => slot?.collect());
  let slot: ReturnType<typeof openThreadSlot> | undefined;
  await new Promise<void>((resolve, reject) => {
    slot = openThreadSlot({
      place: 0,
      bell: bell.rope,
      settings: { sandbox: 'off', inFlight: null },
      onStarted: () => resolve(),
      onStartFailed: () => reject(new Error('it has not started')),
    });
  });
  slot?.abandon();
  await slot?.close();
  bell.stop();

  const [options] = started;
  t.ok(options);
  const other = new Worker(`require(${JSON.stringify(scanWorkerPath)})`, { ...options, eval: true });
  t.match(await once(other, 'error'), [{ code: 'ERR_REQUIRE_ESM' }]);
});
