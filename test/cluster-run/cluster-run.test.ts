// The short form of the cluster's run (main.ts is the long one, and has Sentinels as well): a node, one of its processes and the primary of Postgres fail under load.
import t from 'tap';
import { generator } from '../fixtures/random.js';
import { faults } from './faults.js';
import { runCluster } from './run.js';

const SHORT = ['node killed', 'server process killed', 'Postgres killed, standby promoted'];

t.test('units, revocations and rows stay exact while parts of a cluster fail', async (t) => {
  const report = await runCluster({
    faults: Object.entries(faults).filter(([name]) => SHORT.includes(name)),
    redis: 'cluster',
    secondsMost: 120,
    rate: 15,
    random: generator(3),
    onLine: (text) => t.comment(text),
  });
  t.strictSame(report.problems, []);
  t.match(report, { faults: SHORT.length, unitsTooMany: 0, acceptedAfterRevocation: 0 });
  t.ok(report.answered > 50, `${report.answered} answered`);
  t.ok(report.askedAfterRevocation > 20, `${report.askedAfterRevocation} asked after a revocation`);
});
