// The clock of a download, which stands still while the download waits for us, and pauses: nothing is left of either afterwards.
import { getEventListeners } from 'node:events';
import { mock } from 'node:test';
import t from 'tap';
import { createClock, pause, startDeadline } from '../../src/waiting/within.js';

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

t.test('while the download waits for us the clock stands still', async (t) => {
  const { signal, stop, start, end } = startDeadline(1000, never, late);
  stop();
  stop();
  mock.timers.tick(100_000);
  t.notOk(signal.aborted);
  start();
  start();
  t.notOk(signal.aborted);
  mock.timers.tick(1000);
  t.equal(signal.reason, late, 'and goes on afterwards');
  end();
});

t.test('an ended one never aborts, and does not go on', async (t) => {
  const { signal, stop, start, end } = startDeadline(1000, never, late);
  stop();
  end();
  start();
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

t.test('a clock that is renewed has its whole time again, and goes or stands as before', async (t) => {
  let isOver = false;
  const clock = createClock(1000, () => {
    isOver = true;
  });
  clock.start();
  mock.timers.tick(999);
  clock.renew();
  mock.timers.tick(999);
  t.notOk(isOver);
  clock.stop();
  clock.renew();
  mock.timers.tick(100_000);
  t.notOk(isOver, 'it stands');
  clock.start();
  mock.timers.tick(1000);
  t.ok(isOver);
});

t.test('it ends after its time, and leaves no listener', async (t) => {
  const { signal } = new AbortController();
  const paused = pause(1000, signal);
  t.equal(getEventListeners(signal, 'abort').length, 1);
  mock.timers.tick(1000);
  await paused;
  t.equal(getEventListeners(signal, 'abort').length, 0);
});

t.test('it ends with its signal', async (t) => {
  const controller = new AbortController();
  const paused = pause(1000, controller.signal);
  controller.abort();
  await paused;
  t.equal(getEventListeners(controller.signal, 'abort').length, 0);
});

t.test('it does not begin when the signal has come already', async (t) => {
  await t.resolves(pause(1000, AbortSignal.abort()));
});
