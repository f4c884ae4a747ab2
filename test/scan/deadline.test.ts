// The clock of a download: it stands still while the download waits for us, and nothing is left of it afterwards.
import { getEventListeners } from 'node:events';
import { mock } from 'node:test';
import t from 'tap';
import { startDeadline } from '../../src/scan/deadline.js';

const late = new Error('late');
const gone = new Error('gone');
const never = new AbortController().signal;

t.beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
t.afterEach(() => mock.timers.reset());

t.test('it aborts with its reason when the time is over', async (t) => {
  const { signal, end } = startDeadline(1000, never, late);
  mock.timers.tick(999);
  t.notOk(signal.aborted);
  mock.timers.tick(1);
  t.equal(signal.reason, late);
  end();
  t.equal(getEventListeners(never, 'abort').length, 0);
});

t.test('while work is waited for the clock stands still', async (t) => {
  const { signal, hold, end } = startDeadline(1000, never, late);
  let finish: (text: string) => void = () => undefined;
  const work = new Promise<string>((resolve) => {
    finish = resolve;
  });
  const held = hold(work);
  mock.timers.tick(100_000);
  t.notOk(signal.aborted);
  finish('done');
  t.equal(await held, 'done');
  t.notOk(signal.aborted);
  mock.timers.tick(1000);
  t.equal(signal.reason, late, 'and goes on afterwards');
  end();
});

t.test('work that fails lets the clock go on, and an ended one never aborts', async (t) => {
  const { signal, hold, end } = startDeadline(1000, never, late);
  await t.rejects(hold(Promise.reject(gone)), gone);
  end();
  mock.timers.tick(100_000);
  t.notOk(signal.aborted);
});

t.test('a client that goes away, or is gone already, ends it at once', async (t) => {
  const client = new AbortController();
  const deadline = startDeadline(1000, client.signal, late);
  client.abort(gone);
  t.equal(deadline.signal.reason, gone);
  deadline.end();
  t.equal(startDeadline(1000, client.signal, late).signal.reason, gone);
});
