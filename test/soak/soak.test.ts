// The short form of the soak (main.ts is the long one): mixed traffic of all protocols over a reload, a killed server and a clock that steps.
import t from 'tap';
import { generator } from '../fixtures/random.js';
import { runSoak } from './soak.js';

t.test(
  'nothing is lost, doubled or wrong under mixed traffic, a reload, a killed server and a clock that steps',
  async (t) => {
    const report = await runSoak({
      seconds: 16,
      rate: 15,
      store: 'embedded',
      faultSeconds: 2,
      faults: ['reload', 'clock steps', 'server killed'],
      random: generator(7),
      onLine: (text) => t.comment(text),
    });
    t.strictSame(report.problems, []);
    t.match(report.faults, { reload: Number, 'clock steps': Number, 'server killed': Number });
    t.equal(report.sent, 240);
    t.ok(report.answered > 60, `${report.answered} answered`);
    t.ok(report.rows >= report.answered && report.rows <= report.sent, `${report.rows} rows`);
  },
);
