// `node dist/test/faults/hangs.js [ROUNDS] [DEADLINE_MS] [CLIENTS]`: the long form of the hangs; exits with 1 when anybody beside them gets anything but 200.
import { runHangs } from './hangs-rounds.js';

const [, , rounds = '10', deadlineMs = '2000', clients = '4'] = process.argv;
const report = await runHangs({
  rounds: Number(rounds),
  deadlineMs: Number(deadlineMs),
  clients: Number(clients),
  onRound: (text) => process.stdout.write(`${text}\n`),
});
process.stdout.write(`${JSON.stringify(report)}\n`);
if (report.problems.length > 0 || Object.keys(report.others).join() !== '200') process.exitCode = 1;
