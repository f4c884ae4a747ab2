// `node dist/test/faults/attack.js [SECONDS]`: the mixed attack, by default for ten minutes; exits with 1 when the account that behaves got anything but verdicts, or the server was restarted.
import { runAttack } from './attack-rounds.js';

const [, , seconds = '600'] = process.argv;
const report = await runAttack({ seconds: Number(seconds), onSecond: (text) => process.stdout.write(`${text}\n`) });
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
if (report.problems.length > 0 || report.starts !== 1 || Object.keys(report.answers).join() !== '200') {
  process.exitCode = 1;
}
