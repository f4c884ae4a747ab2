// Bounds: who runs, who waits for how long, and who is refused; and a rate for each of many subjects.
import { mock } from 'node:test';
import t from 'tap';
import { createLimiter, createRate } from '../../src/waiting/limiter.js';
import { deferred } from '../fixtures/deferred.js';

const refusal = (): Error => new Error('busy');

t.test('work that waits is begun in its order, and what comes later does not overtake it', async (t) => {
  const limiter = createLimiter({ running: 1, waiting: 2 });
  const held = deferred<undefined>();
  const order: string[] = [];
  const run = (name: string, work: () => Promise<undefined> = async () => undefined) =>
    limiter.run(() => {
      order.push(name);
      return work();
    }, refusal);
  const all = [run('first', () => held.promise), run('second'), run('third')];
  await t.rejects(run('fourth'), { message: 'busy' });
  held.resolve(undefined);
  await Promise.all(all);
  t.strictSame(order, ['first', 'second', 'third']);
  await run('fifth');
});

t.test('work that has waited for its time is refused; work that fails leaves its place', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const limiter = createLimiter({ running: 1, waiting: 1, waitMs: 100 });
  const held = deferred<undefined>();
  const first = limiter.run(() => held.promise, refusal);
  const second = limiter.run(async () => 'late', refusal);
  mock.timers.tick(100);
  await t.rejects(second, { message: 'busy' });
  held.reject(new Error('broken'));
  await t.rejects(first, { message: 'broken' });
  t.equal(await limiter.run(async () => 'room', refusal), 'room');
});

t.test('so many at once, and one more each so often', async (t) => {
  let now = 1_000;
  const rate = createRate({ burst: 2, everyMs: 500, subjectsMax: 10 }, () => now);
  t.strictSame([rate.take('a'), rate.take('a'), rate.take('a'), rate.take('b')], [0, 0, 1, 0]);
  now += 500;
  t.strictSame([rate.take('a'), rate.take('a')], [0, 1], 'what was refused did not count');
  now += 100_000;
  t.strictSame([rate.take('a'), rate.take('a'), rate.take('a')], [0, 0, 1], 'nothing is saved up');
});
