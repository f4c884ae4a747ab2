// What makes a content a suspect: a thread that works or sleeps on and on, and never a machine or a process that gives it no time.
import { execFileSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { type Running, start } from '../../fixtures/command.js';
import { burn, someCore } from '../../fixtures/core.js';
import { faultEnvironment } from '../../fixtures/faults.js';
import { temporaryFolder } from '../../fixtures/folder.js';
import { bodySignature, databaseFolder } from '../../native/engine.js';

const program = fileURLToPath(new URL('./hang-program.js', import.meta.url));

function scan(t: Test, order: string): Running {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  return start(t, program, [databases, temporaryFolder(t), order], { env: faultEnvironment });
}

for (const how of ['busy', 'sleep']) {
  t.test(`content that never ends (${how}) is found to hang`, async (t) => {
    const { stdout, stderr } = await scan(t, `hang ${how}`).ended;
    t.equal(stdout, 'begun\nincomplete\nhung digest\n', stderr);
  });
}

t.test('content whose thread gets no processor is late, and no suspect', async (t) => {
  const running = scan(t, 'hang busy 5');
  await running.line('begun');
  // All on one core, so that the other tests of this machine have the rest.
  const core = someCore();
  execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', core, String(running.process.pid)]);
  // Several beside it: a thread that has been given up has a tenth of the weight of one of them.
  for (let count = 0; count < 4; count += 1) burn(t, core);
  const { stdout, stderr } = await running.ended;
  t.equal(stdout, 'begun\nincomplete\nback, late, 0 late\n', stderr);
});

t.test('content that was being scanned while the whole process stood still is no suspect', async (t) => {
  for (;;) {
    const running = scan(t, 'hang sleep 0.8');
    await running.line('begun');
    running.process.kill('SIGSTOP');
    // It is to stand still for so long.
    await delay(4_000);
    running.process.kill('SIGCONT');
    const { stdout, stderr } = await running.ended;
    // On a busy machine the scan may have ended before all stood still: once more.
    if (stdout.startsWith('begun\nclean\n')) continue;
    t.match(stdout, /^begun\nincomplete\nback, /, stderr);
    return;
  }
});
