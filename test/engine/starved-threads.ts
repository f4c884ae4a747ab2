// A child process of the tests: loses its only scan thread while the kernel gives it no other one, and prints when it has one again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { startThreads } from '../../src/engine/threads.js';

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

let isLost = false;
const again = new Promise<void>((resolve) => {
  const onFree = (): void => {
    if (isLost) resolve();
  };
  const threads = startThreads({ count: 1, standIns: 0, settings: { sandbox: 'off' }, onFree });
  void (async () => {
    const thread = threads.take();
    const content = new ArrayBuffer(1);
    await thread.run({ content, sizeBytes: 1, clamav: false, rules: null });
    await limitProcesses('1');
    isLost = true;
    thread.lose();
    thread.release();
    // What can't be started is told by then.
    await limitProcesses('1');
    process.stdout.write(`${threads.free} free\n`);
    await limitProcesses('1024');
  })();
});
await again;
process.stdout.write('1 again\n');
process.exit(0);
