// A child process of the tests: its only scan thread is given up while the kernel gives it no other one. It prints when it has one again, that large
// content is scanned where no thread can be started for it, and what is said then of the sandbox, which is tried on a thread.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { startBell } from '../../../src/engine/threads/bell.js';
import { ScanPool, scanOnce } from '../../../src/engine/threads/pool.js';
import { findSandbox } from '../../../src/engine/threads/sandbox.js';
import { ThreadSet } from '../../../src/engine/threads/thread-set.js';
import { messageOfError } from '../../../src/error-text.js';
import { sharedBytes } from '../../fixtures/shared-bytes.js';

// Started before: under the limit this process couldn't start it. The soft limit alone, which may be raised again.
const set = `prlimit --pid ${process.pid} --nproc=`;
const helper = spawn('sh', ['-c', `while read limit; do ${set}$limit: && echo set; done`], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const answers = createInterface({ input: helper.stdout });
async function limitProcesses(limit: string): Promise<void> {
  helper.stdin.write(`${limit}\n`);
  await once(answers, 'line');
}

let onStarted: () => void = () => undefined;
const bell = startBell(() => {
  for (const slot of threads.slots) {
    if (slot.hasStarted || slot.threadId() === undefined) continue;
    threads.welcome(slot);
    onStarted();
  }
});
const threads = new ThreadSet({
  count: 1,
  most: 1,
  keepMs: 60_000,
  settings: { sandbox: 'off', inFlight: null, staysAwake: true },
  isHeavy: false,
  bell: bell.rope,
  places: [],
  onIdle: () => undefined,
  onDied: () => undefined,
  onLack: (reason) => process.stdout.write(`${reason}\n`),
});
const started = (): Promise<void> =>
  new Promise((resolve) => {
    onStarted = resolve;
  });

await started();
await limitProcesses('1');
const slot = threads.take();
threads.giveUp(slot);
threads.putBack(slot);
// By then the kernel has refused the next thread.
await limitProcesses('1');
process.stdout.write(`${threads.isFree ? 1 : 0} free, ${threads.problem === null ? 'no' : 'a'} problem\n`);
const again = started();
await limitProcesses('1024');
await again;
process.stdout.write(`1 again, ${threads.problem ?? 'no'} problem\n`);

const pool = new ScanPool({ threads: 1, threadsMost: 3, queueLimit: 10, scanTimeoutMs: 10_000, sandbox: 'off' });
await scanOnce(pool, sharedBytes(Buffer.from('small')), 1);
await limitProcesses('1');
try {
  process.stdout.write(`${findSandbox('auto').warning}\n`);
} catch (error) {
  process.stdout.write(`${messageOfError(error)}\n`);
}
const large = sharedBytes(Buffer.alloc(2 * 1024 * 1024));
const scans = await Promise.all([1, 2].map(() => scanOnce(pool, large, large.length)));
process.stdout.write(`${scans.length} large\n`);
process.exit(0);
