// The short form of the race between scans and the deletion of their key (revocation.ts is the long one).
import t from 'tap';
import { generator } from '../fixtures/random.js';
import { runRevocations } from './revocation-rounds.js';

t.test('no scan that is asked for after its key was deleted is admitted, on either server', async (t) => {
  const report = await runRevocations({ requests: 2_000, random: generator(1) });
  t.strictSame(report.problems, []);
  t.ok(report.admitted > report.rounds, `${report.admitted} admitted before`);
  t.ok(report.askedAfter > 0);
});
