// `node dist/test/faults/revocation.js [REQUESTS] [SEED]`: the long form of the race between scans and the deletion of their key; exits with 1 when one is admitted after it, or none was asked for.
import { generator } from '../fixtures/random.js';
import { runRevocations } from './revocation-rounds.js';

const [, , requests = '100000', seed = String(Date.now() % 1_000_000)] = process.argv;

process.stdout.write(`${requests} scans, seed ${seed}\n`);
const report = await runRevocations({ requests: Number(requests), random: generator(Number(seed)) });
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
// A run that asked for nothing after a deletion has shown nothing.
if (report.problems.length > 0 || report.askedAfter === 0) process.exitCode = 1;
