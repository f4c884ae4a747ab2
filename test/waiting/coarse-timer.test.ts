// Coarse timers: each calls back once and not before its time, unless it is stopped.
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { startCoarseTimer } from '../../src/waiting/coarse-timer.js';

t.test('a timer calls back once, and never too early', async (t) => {
  const startedMs = performance.now();
  let calls = 0;
  await new Promise<void>((resolve) => {
    startCoarseTimer(30, () => {
      calls += 1;
      resolve();
    });
  });
  t.ok(performance.now() - startedMs >= 30);
  await new Promise<void>((resolve) => void startCoarseTimer(50, resolve));
  t.equal(calls, 1);
});

t.test('a timer that is stopped does not call back, also when another one stops it in the same tick', async (t) => {
  const called: string[] = [];
  const stopped = startCoarseTimer(1, () => called.push('stopped'));
  stopped.stop();
  stopped.stop();
  await new Promise<void>((resolve) => {
    startCoarseTimer(1, () => {
      called.push('first');
      second.stop();
      resolve();
    });
    const second = startCoarseTimer(1, () => called.push('second'));
  });
  await new Promise<void>((resolve) => void startCoarseTimer(1, resolve));
  t.strictSame(called, ['first']);
});

t.test('a timer that is begun by another one has its whole time', async (t) => {
  const order: string[] = [];
  await new Promise<void>((resolve) => {
    startCoarseTimer(0, () => {
      order.push('outer');
      startCoarseTimer(0, () => {
        order.push('inner');
        resolve();
      });
      order.push('begun');
    });
  });
  t.strictSame(order, ['outer', 'begun', 'inner']);
});
