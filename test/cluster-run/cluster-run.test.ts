// The short form of the cluster's run (main.ts is the long one): a node, one of its processes and the primary of Postgres fail under load, and masters of Redis that Sentinels watch.
import t from 'tap';
import { generator } from '../faults/random.js';
import { faults, sentinelFaults } from './faults.js';
import { runCluster } from './run.js';

const SHORT_SENTINELS = ['Redis master killed', 'Redis master cut off, another elected'];
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

t.test('units and revocations stay exact while Sentinels elect one master after the other', async (t) => {
  const report = await runCluster({
    faults: Object.entries({ ...faults, ...sentinelFaults }).filter(([name]) => SHORT_SENTINELS.includes(name)),
    redis: 'sentinels',
    secondsMost: 120,
    rate: 15,
    random: generator(5),
    onLine: (text) => t.comment(text),
  });
  t.strictSame(report.problems, []);
  t.match(report, { faults: SHORT_SENTINELS.length, unitsTooMany: 0, acceptedAfterRevocation: 0 });
  t.ok(report.askedAfterRevocation > 20, `${report.askedAfterRevocation} asked after a revocation`);
});
