// `node dist/test/faults/crashes.js [ROUNDS] [first|series] [CLIENTS]`: the long form of the crashes; exits with 1 when the
// service is not back within a second and the load of its engine, by the median.
import { medians, runCrashes } from './crashes-rounds.js';

const BOUND_MS = 1_000;
const [, , rounds = '20', kind = 'first', clients = '0'] = process.argv;
if (kind !== 'first' && kind !== 'series') throw new Error(`There is no kind "${kind}"`);

const { recoveries, others, problems } = await runCrashes({
  rounds: Number(rounds),
  kind,
  clients: Number(clients),
  onRound: (text) => process.stdout.write(`${text}\n`),
});
const median = medians(recoveries);
const slowest = Math.max(...recoveries.map(({ back }) => back));
process.stdout.write(`medians of ${recoveries.length} ${JSON.stringify(median)}, slowest ${slowest} ms\n`);
process.stdout.write(`beside them ${JSON.stringify(others)}, problems ${JSON.stringify(problems)}\n`);
if (problems.length > 0 || median.back > BOUND_MS + median.engine) process.exitCode = 1;
