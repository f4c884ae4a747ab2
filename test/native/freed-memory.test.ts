// What threads have freed goes back to the kernel, wherever the C library keeps it.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { processAddonPath } from '../../src/paths.js';

const run = promisify(execFile);

const BYTES = 24 * 1024 * 1024;
const addon = `const addon = require(${JSON.stringify(processAddonPath)});`;
/** What is taken beside the large piece comes from what small ones have freed: so the large one is the last of its arena. */
const THREAD = `
  ${addon}
  const { parentPort } = require('node:worker_threads');
  for (const small of Array.from({ length: 200 }, () => Buffer.allocUnsafeSlow(64))) addon.releaseMemory(small);
  addon.releaseMemory(Buffer.allocUnsafeSlow(${BYTES}).fill(1));
  parentPort.postMessage('freed');
  parentPort.on('message', () => undefined);
`;
const PROCESS = `
  ${addon}
  const { once } = require('node:events');
  const { Worker } = require('node:worker_threads');
  const { setTimeout: delay } = require('node:timers/promises');
  (async () => {
    // From then on what is freed is kept.
    addon.giveMemoryBack();
    await delay(200);
    await once(new Worker(${JSON.stringify(THREAD)}, { eval: true }), 'message');
    const kept = process.memoryUsage.rss();
    addon.giveMemoryBack();
    while (kept - process.memoryUsage.rss() < ${0.75 * BYTES}) await delay(20);
    process.exit();
  })();
`;

t.test('also what lies at the end of the memory of a thread', async () => {
  const env = { ...process.env, MALLOC_ARENA_MAX: '6' };
  await run(process.execPath, ['-e', PROCESS], { env, timeout: 30_000 });
});
