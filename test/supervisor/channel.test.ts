// What a server process understands of a supervisor that is of another version: SIGUSR2 starts what has been put in its place meanwhile.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';

const server = fileURLToPath(new URL('./channel-server.js', import.meta.url));
/** As 0.1.0 has it. */
const older = { kind: 'start', takesOver: true, inheritsListener: true, socketDirectory: null, refused: [] };

/** All that it says. */
async function answersTo(t: Test, order: object): Promise<unknown[]> {
  const child = fork(server);
  t.teardown(() => child.kill('SIGKILL'));
  const answers: unknown[] = [];
  child.on('message', (answer) => answers.push(answer));
  child.send(order);
  await once(child, 'exit');
  return answers;
}

t.test('an older supervisor has no memory for what is being scanned: nothing is noted', async (t) => {
  const answers = await answersTo(t, { ...older, inFlightPath: '/tmp/in-flight' });
  t.match(answers, [{ kind: 'started' }, { start: { takesOver: true, inFlight: null } }]);
});

t.test('a server ends where it does not understand how to start', async (t) => {
  const answers = await answersTo(t, { ...older, inheritsListener: 'yes' });
  t.match(answers, [{ problem: /another version.*inheritsListener/s }]);
});
