// The short form of scans while Postgres is stopped (paused-database.ts is the long one): all are answered, and all have their row after.
import t from 'tap';
import { runPause } from './paused-database-run.js';

t.test('scans while the database hangs are answered, wait in the journal, and are all there after', async (t) => {
  const report = await runPause({ seconds: 2, scansPerSecond: 40 });
  t.strictSame(report.problems, []);
  t.equal(report.asked, 80);
  t.strictSame(report.answers, { 200: 60, 400: 20 }, 'one in four is empty');
  t.ok(report.waitingRows >= 80, `${report.waitingRows} waited`);
});
