// The short form of the crashes (crashes.ts is the long one): the next connection is served, and nobody has a wrong answer.
import t from 'tap';
import { medians, runCrashes } from './crashes-rounds.js';

t.test('after each of several crashes under load a new connection has its verdict', async (t) => {
  const { recoveries, others, problems } = await runCrashes({
    rounds: 3,
    kind: 'series',
    clients: 2,
    onRound: (text) => t.comment(text),
  });
  t.comment(JSON.stringify(medians(recoveries)));
  t.strictSame(problems, []);
  t.equal(recoveries.length, 3);
  t.equal(recoveries[0]?.delayed, 0, 'the first restart comes at once');
  t.ok((others['200'] ?? 0) > 0);
});
