// `node dist/test/faults/paused-database.js [SECONDS] [SCANS_PER_SECOND]`: scans while Postgres is stopped; exits with 1 when a row is lost.
import { runPause } from './paused-database-run.js';

const [, , seconds = '60', scansPerSecond = '200'] = process.argv;
const report = await runPause({ seconds: Number(seconds), scansPerSecond: Number(scansPerSecond) });
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
if (report.problems.length > 0 || (report.answers['200'] ?? 0) + (report.answers['400'] ?? 0) < report.asked) {
  process.exitCode = 1;
}
