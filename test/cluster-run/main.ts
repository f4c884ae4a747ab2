// `npm run cluster -- --minutes N --faults N [--rate N] [--redis cluster|sentinels] [--only NAME] [--seed N]`: three nodes over a Redis Cluster with replicas (or one master with replicas and Sentinels) and a Postgres with a standby, HAProxy in front, under load,
// while each part fails in turn. Exits with 1 when a unit was given twice, a revoked key worked, a row was lost or doubled, or a failed node cost more than one retry.
import { parseArgs } from 'node:util';
import { generator } from '../faults/random.js';
import { faults, sentinelFaults } from './faults.js';
import { runCluster } from './run.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    faults: { type: 'string' },
    redis: { type: 'string', default: 'cluster' },
    rate: { type: 'string', default: '30' },
    only: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
const { minutes, rate, seed, only, redis } = values;
if (redis !== 'cluster' && redis !== 'sentinels') throw new Error('--redis is one of: cluster, sentinels');
const all = { ...faults, ...(redis === 'sentinels' ? sentinelFaults : {}) };
const asked = Number(values.faults ?? Object.keys(all).length);
const possible = Object.entries(all).filter(([name]) => only === undefined || name === only);
if (possible.length === 0) throw new Error(`--only is one of: ${Object.keys(all).join(', ')}`);
const random = generator(Number(seed));
const draw = (): number => Math.floor(random() * possible.length);
/** Each of them in turn at first, then by chance. */
const order = Array.from({ length: asked }, (_, number) => (number < possible.length ? number : draw()));
const chosen = order.flatMap((index) => possible.slice(index, index + 1));

const say = (text: string): void => void process.stdout.write(`${text}\n`);
say(`${asked} faults in ${minutes} minutes at most, ${rate} requests a second, seed ${seed}`);
const report = await runCluster({
  faults: chosen,
  redis,
  secondsMost: Number(minutes) * 60,
  rate: Number(rate),
  random,
  onLine: say,
});
say(JSON.stringify(report, null, 2));
say(
  report.problems.length === 0
    ? 'Verdict: no unit too many, no request after a revocation, no row lost or doubled.'
    : `Verdict: ${report.problems.length} problems.`,
);
if (report.problems.length > 0) process.exitCode = 1;
