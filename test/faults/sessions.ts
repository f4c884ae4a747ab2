// `node dist/test/faults/sessions.js [ROUNDS] [SEED]`: the long form of the end of all sessions against logins and refreshes; exits with 1 when one outlives it.
import { generator } from '../fixtures/random.js';
import { runSessionRounds } from './session-rounds.js';

const [, , rounds = '1000', seed = String(Date.now() % 1_000_000)] = process.argv;

process.stdout.write(`${rounds} rounds, seed ${seed}\n`);
const report = await runSessionRounds({ rounds: Number(rounds), random: generator(Number(seed)) });
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
// A run without rounds, or of logins that all failed, has shown nothing.
if (report.problems.length > 0 || report.loginsAfter + report.loginsBefore === 0) process.exitCode = 1;
