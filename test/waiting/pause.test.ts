// A pause lasts for its time, and no longer than until its signal.
import { getEventListeners } from 'node:events';
import { mock } from 'node:test';
import t from 'tap';
import { pause } from '../../src/waiting/within.js';

t.beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
t.afterEach(() => mock.timers.reset());

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
