// The bound on work of one kind: who runs, who waits for how long, and who is refused.
import { mock } from 'node:test';
import t from 'tap';
import { createLimiter } from '../../src/waiting/limiter.js';
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
