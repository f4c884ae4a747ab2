// What threads have freed goes back to the kernel, wherever the C library keeps it.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { addonPath, processAddonPath } from '../../src/paths.js';

const run = promisify(execFile);

const MIB = 1024 * 1024;
const BYTES = 24 * MIB;
/** The largest of which that are freed are kept. */
const KEPT_BYTES = 0.75 * MIB;
const addon = `const addon = require(${JSON.stringify(processAddonPath)});`;
/** What is taken beside the large pieces comes from what small ones have freed: so the large ones are the last of their arena. */
const THREAD = `
  ${addon}
  const { parentPort } = require('node:worker_threads');
  for (const small of Array.from({ length: 200 }, () => Buffer.allocUnsafeSlow(64))) addon.releaseMemory(small);
  const large = Array.from({ length: ${BYTES / KEPT_BYTES} }, () => Buffer.allocUnsafeSlow(${KEPT_BYTES}).fill(1));
  for (const one of large) addon.releaseMemory(one);
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

const LARGE = `
  ${addon}
  // Who scans keeps what is freed.
  require(${JSON.stringify(addonPath)});
  const large = Array.from({ length: ${BYTES / MIB} }, () => Buffer.allocUnsafeSlow(${MIB}).fill(1));
  const held = process.memoryUsage.rss();
  for (const one of large) addon.releaseMemory(one);
  process.exit(held - process.memoryUsage.rss() < ${0.75 * BYTES} ? 1 : 0);
`;

t.test('large pieces go back when they are freed', async () => {
  await run(process.execPath, ['-e', LARGE], { timeout: 30_000 });
});

const FORGETFUL = `
  ${addon}
  const { readFileSync } = require('node:fs');
  const { setTimeout: delay } = require('node:timers/promises');
  const ofFiles = () => Number(/^RssFile:\\s+(\\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
  const say = () => [new Intl.DateTimeFormat('de', { month: 'long' }).format(0), JSON.stringify([1.5]), /a+b/.exec('caab')[0]].join();
  (async () => {
    const before = ofFiles();
    const said = say();
    addon.forgetProgram();
    while (ofFiles() > before / 2) await delay(20);
    // It works as before: what it needs comes back.
    process.exit(say() === said ? 0 : 1);
  })();
`;

t.test('a process forgets what its start has looked at of the program, and goes on', async () => {
  for (const flags of [[], ['--use-largepages=on']]) {
    await run(process.execPath, [...flags, '-e', FORGETFUL], { timeout: 30_000 });
  }
});
