// `node dist/test/faults/async.js [SCANS] [postgres|embedded] [SEED]`: accepted scans over killed servers; exits with 1 when one has no verdict, or two rows, or leaves its content.

import { generator } from '../fixtures/random.js';
import { runAsyncRounds } from './async-rounds.js';

const [, , scans = '1000', store = 'postgres', seed = String(Date.now() % 1_000_000)] = process.argv;
if (store !== 'postgres' && store !== 'embedded') throw new Error(`There is no store "${store}"`);

process.stdout.write(`${scans} scans on ${store}, seed ${seed}\n`);
const report = await runAsyncRounds({
  store,
  scans: Number(scans),
  scansBetweenKills: 25,
  random: generator(Number(seed)),
  onRound: (text) => process.stdout.write(`${text}\n`),
});
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
if (report.problems.length > 0) process.exitCode = 1;
