// The short form of the soak (main.ts is the long one): mixed traffic of all protocols over a reload and a killed server.
import t from 'tap';
import { generator } from '../fixtures/random.js';
import { runSoak } from './soak.js';

t.test('nothing is lost, doubled or wrong under mixed traffic, a reload and a killed server', async (t) => {
  const report = await runSoak({
    seconds: 8,
    rate: 15,
    store: 'embedded',
    faultSeconds: 2,
    faults: ['reload', 'server killed'],
    random: generator(7),
    onLine: (text) => t.comment(text),
  });
  t.strictSame(report.problems, []);
  t.match(report.faults, { reload: Number, 'server killed': Number });
  t.equal(report.sent, 120);
  t.ok(report.answered > 30, `${report.answered} answered`);
  t.ok(report.rows >= report.answered && report.rows <= report.sent, `${report.rows} rows`);
});
