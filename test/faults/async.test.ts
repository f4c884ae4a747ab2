// The short form of the faults of asynchronous scans (async.ts is the long one): what was accepted has one verdict, and leaves nothing on the disk.
import t from 'tap';
import { runAsyncRounds } from './async-rounds.js';

/** When after its due moment a server is killed, which node it is, and what of it. */
const draws = {
  postgres: [
    [0.2, 0.1, 0.9],
    [0.9, 0.9, 0.1],
    [0.5, 0.9, 0.9],
  ],
  embedded: [
    [0.2, 0, 0.9],
    [0.9, 0, 0.1],
  ],
};

for (const store of ['postgres', 'embedded'] as const) {
  t.test(`servers killed while they scan what they have accepted, on the ${store} store`, async (t) => {
    const drawn = draws[store].flat();
    const random = (): number => drawn.shift() ?? 0.5;
    const scans = 15 * (draws[store].length + 1);
    const report = await runAsyncRounds({
      ...{ store, scans, scansBetweenKills: 15, random },
      onRound: (text) => t.comment(text),
    });
    t.strictSame(report.problems, []);
    t.ok(report.accepted >= scans, `${report.accepted} accepted`);
    t.match(report.kills, store === 'postgres' ? { server: 1, all: 2 } : { server: 1, all: 1 });
  });
}
