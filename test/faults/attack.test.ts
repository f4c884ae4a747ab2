// The short form of the mixed attack (attack.ts is the long one): nobody is stopped, and nothing is restarted.
import t from 'tap';
import { runAttack } from './attack-rounds.js';

t.test('an account that behaves has its verdicts while three others and strangers attack the server', async (t) => {
  const report = await runAttack({ seconds: 8, onSecond: (text) => t.comment(text) });
  t.strictSame(report.problems, []);
  t.strictSame(Object.keys(report.answers), ['200'], JSON.stringify(report));
  t.equal(report.starts, 1, 'the server was not restarted');
});
