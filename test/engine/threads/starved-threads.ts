// A child process of the tests: its only scan thread is given up while the kernel gives it no other one. It prints when it has one again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { startThreads } from '../../../src/engine/threads/threads.js';

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

let isGivenUp = false;
const again = new Promise<void>((resolve) => {
  const onFree = (): void => {
    if (isGivenUp) resolve();
  };
  const threads = startThreads({ count: 1, standIns: 0, settings: { sandbox: 'off', inFlight: null }, onFree });
  void (async () => {
    const thread = threads.take();
    const content = new Uint8Array(new SharedArrayBuffer(1));
    const task = { content, sizeBytes: 1, clamav: false, rules: null, sha256: null };
    await new Promise((resolve) => thread.post(task, resolve));
    await limitProcesses('1');
    isGivenUp = true;
    thread.giveUp();
    thread.release();
    // By then the kernel has refused the next thread.
    await limitProcesses('1');
    process.stdout.write(`${threads.free} free\n`);
    await limitProcesses('1024');
  })();
});
await again;
process.stdout.write('1 again\n');
process.exit(0);
