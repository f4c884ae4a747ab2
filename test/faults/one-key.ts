// `node dist/test/faults/one-key.js [PARALLEL] [SCANS_OF_EACH]`: prints what scans cost that all use one key, beside others; exits with 1 when a key's last use is wrong.
import { runOneKey } from './one-key-run.js';

const [, , parallel = '500', scansOfEach = '20'] = process.argv;
const report = await runOneKey({ parallel: Number(parallel), scansOfEach: Number(scansOfEach) });
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
if (report.wrongKeys > 0) process.exitCode = 1;
