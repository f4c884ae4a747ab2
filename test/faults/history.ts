// `node dist/test/faults/history.js [ROUNDS] [postgres|embedded] [SEED]`: the long form of the history's faults; exits with 1 when a row is lost.

import { generator } from '../fixtures/random.js';
import { runRounds } from './history-rounds.js';

const [, , rounds = '200', store = 'postgres', seed = String(Date.now() % 1_000_000)] = process.argv;
if (store !== 'postgres' && store !== 'embedded') throw new Error(`There is no store "${store}"`);

process.stdout.write(`${rounds} rounds on ${store}, seed ${seed}\n`);
const report = await runRounds({
  store,
  rounds: Number(rounds),
  random: generator(Number(seed)),
  onRound: (text) => process.stdout.write(`${text}\n`),
});
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
if (report.problems.length > 0) process.exitCode = 1;
