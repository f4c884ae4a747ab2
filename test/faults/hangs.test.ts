// The short form of the hangs (hangs.ts is the long one): two scans that burn both threads, at a deadline of two seconds.
import t from 'tap';
import { runHangs } from './hangs-rounds.js';

t.test(
  'scans that burn every thread are answered, their process is replaced, and no other content is called incomplete',
  async (t) => {
    const report = await runHangs({ rounds: 1, deadlineMs: 2_000, clients: 4, onRound: (text) => t.comment(text) });
    t.strictSame(report.problems, []);
    t.equal(report.replaced, 1);
    t.ok((report.others['200'] ?? 0) > 0);
  },
);
