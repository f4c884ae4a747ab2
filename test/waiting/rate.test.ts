// A rate for each of many subjects.
import t from 'tap';
import { createRate } from '../../src/waiting/limiter.js';

t.test('so many at once, and one more each so often', async (t) => {
  let now = 1_000;
  const rate = createRate({ burst: 2, everyMs: 500, subjectsMax: 10 }, () => now);
  t.strictSame([rate.take('a'), rate.take('a'), rate.take('a'), rate.take('b')], [0, 0, 1, 0]);
  now += 500;
  t.strictSame([rate.take('a'), rate.take('a')], [0, 1], 'what was refused did not count');
  now += 100_000;
  t.strictSame([rate.take('a'), rate.take('a'), rate.take('a')], [0, 0, 1], 'nothing is saved up');
});
