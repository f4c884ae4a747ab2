// The short form of the history's faults (history.ts is the long one): no answered scan without its row, none with two.
import t from 'tap';
import { runRounds } from './history-rounds.js';

/** When the fault comes, which it is, and how long it takes: killed; killed while the database hangs; after a crash; after it hung. */
const draws = [
  [0.3, 0.9, 0.5],
  [0.2, 0.1, 0.5, 0.2],
  [0.3, 0.3, 0.2, 0.3],
  [0.3, 0.1, 0.4, 0.8, 0.4],
].flat();

for (const [store, rounds] of [
  ['postgres', 4],
  ['embedded', 2],
] as const) {
  t.test(`servers killed under load on the ${store} store lose no answered scan and double none`, async (t) => {
    const drawn = [...draws];
    const random = (): number => drawn.shift() ?? 0.5;
    const report = await runRounds({ store, rounds, random, onRound: (text) => t.comment(text) });
    t.strictSame(report.problems, []);
    t.equal(report.kills, rounds);
    t.ok(report.answered > rounds, `${report.answered} answered`);
    t.ok(report.rows >= report.answered);
  });
}
