// `npm run cluster -- --minutes N --faults N [--rate N] [--redis cluster|sentinels] [--only NAME] [--seed N] [--figures NAME]`: three nodes over a Redis Cluster with replicas (or one master with replicas and Sentinels) and a Postgres with a standby, HAProxy in front, under load,
// while each part fails in turn. Exits with 1 when a unit was given twice, a revoked key worked, a row was lost or doubled, or a failed node cost more than one retry.
import { Command, Option } from 'commander';
import { writeFigures } from '../../bench/figures.js';
import { positive, whole } from '../fixtures/option-values.js';
import { generator } from '../fixtures/random.js';
import { faults, sentinelFaults } from './faults.js';
import { type ClusterReport, runCluster } from './run.js';

const options = new Command('npm run cluster --')
  .description(
    'Three nodes under load while each part fails in turn; exits with 1 when a unit was given twice, a revoked key worked, or a row was lost or doubled.',
  )
  .option('--minutes <count>', 'at most', positive, 5)
  .option('--faults <count>', 'how many (default: each of them once)', whole)
  .option('--rate <count>', 'requests a second', whole, 30)
  .addOption(
    new Option('--redis <kind>', 'how Redis is kept').choices(['cluster', 'sentinels'] as const).default('cluster'),
  )
  .addOption(new Option('--only <name>', 'no other fault').choices(Object.keys({ ...faults, ...sentinelFaults })))
  .option('--seed <count>', 'of what is drawn', whole, 1 + (Date.now() % 1_000_000))
  .option('--figures <name>', 'keep them for the documents, as docs/figures/NAME.json')
  .parse()
  .opts<{
    minutes: number;
    faults?: number;
    rate: number;
    redis: 'cluster' | 'sentinels';
    only?: string;
    seed: number;
    figures?: string;
  }>();
const { minutes, rate, seed, only, redis } = options;
const all = { ...faults, ...(redis === 'sentinels' ? sentinelFaults : {}) };
const possible = Object.entries(all).filter(([name]) => only === undefined || name === only);
if (possible.length === 0) throw new Error(`${only} is a fault of --redis sentinels`);
const asked = options.faults ?? Object.keys(all).length;
const random = generator(seed);
const draw = (): number => Math.floor(random() * possible.length);
/** Each of them in turn at first, then by chance. */
const order = Array.from({ length: asked }, (_, number) => (number < possible.length ? number : draw()));
const chosen = order.flatMap((index) => possible.slice(index, index + 1));

const say = (text: string): void => void process.stdout.write(`${text}\n`);
say(`${asked} faults in ${minutes} minutes at most, ${rate} requests a second, seed ${seed}`);
const report = await runCluster({
  faults: chosen,
  redis,
  secondsMost: minutes * 60,
  rate,
  random,
  onLine: say,
});
say(JSON.stringify(report, null, 2));
if (options.figures !== undefined) {
  const command = `npm run cluster -- --minutes ${minutes} --faults ${asked} --rate ${rate} --redis ${redis}`;
  writeFigures(options.figures, { command, columns: ['', 'count'], rows: rowsOf(report) });
}
const isExact = report.problems.length === 0;
// On a busy machine the nodes that are left may refuse for that: the short form doesn't ask for it.
const isOneRetry = report.retriesMostOfNode <= 1;
if (!isOneRetry) say(`A failed node cost a request ${report.retriesMostOfNode} retries.`);
say(
  isExact
    ? 'Verdict: no unit too many, no request after a revocation, no row lost or doubled.'
    : `Verdict: ${report.problems.length} problems.`,
);
if (!(isExact && isOneRetry)) process.exitCode = 1;

function rowsOf(report: ClusterReport): string[][] {
  const counts: readonly (readonly [string, number])[] = [
    ['requests', report.sent],
    ['answered scans', report.answered],
    ['rows of the history', report.rows],
    ['units too many', report.unitsTooMany],
    ['units that no request got', report.unitsLost],
    ['keys revoked', report.revoked],
    ['scans asked for after a revocation was answered', report.askedAfterRevocation],
    ['of these accepted', report.acceptedAfterRevocation],
    ['retries of one request for a node, at most', report.retriesMostOfNode],
    ['lost, doubled or wrong', report.problems.length],
    ['faults', report.faults],
    ...Object.entries(report.faultsByName).map(([name, times]) => [`fault: ${name}`, times] as const),
  ];
  return counts.map(([name, count]) => [name, String(count)]);
}
