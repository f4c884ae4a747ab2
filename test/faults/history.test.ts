// The short form of the history's faults (history.ts is the long one): no answered scan without its row, none with two.
import t from 'tap';
import { runRounds } from './history-rounds.js';

/** When the fault comes, which it is, how long it takes, whether the server is killed meanwhile, and if not how much later; embedded: what is killed. */
const draws = {
  postgres: [
    [0.3, 0.9],
    [0.2, 0.01, 0.1, 0.2],
    [0.3, 0.15, 0.1, 0.8, 0.3],
    [0.3, 0.25, 0.2, 0.8, 0.4],
    [0.2, 0.35, 0.1, 0.2],
    [0.2, 0.45, 0.1, 0.2],
  ],
  embedded: [
    [0.3, 0.9, 0.1],
    [0.2, 0.01, 0.1, 0.8, 0.3, 0.4],
    [0.2, 0.3, 0.1, 0.2, 0.9],
  ],
};
const expected = {
  postgres: {
    kills: { all: 6, allButDatabase: 0, supervisor: 0 },
    outages: { database: 1, redis: 1, both: 1, databaseCrash: 1, redisCrash: 1 },
  },
  embedded: {
    kills: { all: 1, allButDatabase: 1, supervisor: 1 },
    outages: { database: 1, redis: 0, both: 0, databaseCrash: 1, redisCrash: 0 },
  },
};

for (const store of ['postgres', 'embedded'] as const) {
  t.test(`servers killed under load on the ${store} store lose no answered scan and double none`, async (t) => {
    const drawn = draws[store].flat();
    const rounds = draws[store].length;
    const random = (): number => drawn.shift() ?? 0.5;
    const report = await runRounds({ store, rounds, random, onRound: (text) => t.comment(text) });
    t.strictSame(report.problems, []);
    t.match(report, expected[store]);
    t.ok(report.answered > rounds, `${report.answered} answered`);
    t.ok(report.infected > 0 && report.infected < report.scanned, `${report.infected} of ${report.scanned} infected`);
    t.ok(report.rows >= report.answered);
  });
}
