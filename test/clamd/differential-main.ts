// `npm run differential:clamd`: sessions of commands to Debian's clamd and to ours with the same signatures; the same bytes, but for listed exceptions.
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { whole } from '../fixtures/option-values.js';
import { startOurs } from './client.js';
import { differences, shown } from './differential.js';
import { startTheirs } from './theirs.js';

const { database, sessions, first } = new Command('differential:clamd')
  .option('--database <folder>', 'signatures of both', ownSignaturesDirectory)
  .option('--sessions <count>', 'how many', whole, 1_000)
  .option('--first <number>', 'the number of the first one', whole, 1)
  .parse()
  .opts<{ database: string; sessions: number; first: number }>();

const theirs = await startTheirs({ databaseDirectory: database, threads: 2 });
const ours = await startOurs({ SIGNATURES_DIR: database, PLANS: 'BUSINESS:10000000', CLAMD_PATHS: '/' });
try {
  const found = await differences({ theirs, ours: [ours.unix, ours.tcp] }, { first, count: sessions });
  for (const difference of found) process.stdout.write(`${shown(difference)}\n`);
  process.stdout.write(
    `${sessions} sessions, ${found.length} with a difference; clamd ended or hung ${theirs.lost} times\n`,
  );
  process.exitCode = found.length === 0 ? 0 : 1;
} finally {
  await ours.server.stop();
  await theirs.stop();
}
