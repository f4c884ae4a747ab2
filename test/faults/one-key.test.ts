// The short form of many scans with one key (one-key.ts is the long one and measures): all succeed, and every key was used last when it was.
import t from 'tap';
import { runOneKey } from './one-key-run.js';

t.test('scans at once with one key and with one each all succeed, and keys know their last use', async (t) => {
  const report = await runOneKey({ parallel: 20, scansOfEach: 5 });
  t.equal(report.wrongKeys, 0);
  for (const latency of [report.oneKey, report.keysOfOneUser, report.keysOfManyUsers, report.oneConnection]) {
    t.equal(latency.failed, 0);
  }
});
