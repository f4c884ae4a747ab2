// A short form of `npm run differential:clamd`.
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { startOurs } from './client.js';
import { differences, shown } from './differential.js';
import { startTheirs } from './theirs.js';

const SESSIONS = 150;

t.test('sessions of commands, good, broken and cut, are answered as by clamd', async (t) => {
  const theirs = await startTheirs({ databaseDirectory: ownSignaturesDirectory, threads: 2 });
  t.teardown(theirs.stop);
  const ours = await startOurs({ CLAMD_PATHS: '/' });
  t.teardown(() => ours.server.stop());
  const sides = { theirs, ours: [ours.unix, ours.tcp] };
  const found = await differences(sides, { first: 1, count: SESSIONS });
  t.strictSame(found.map(shown), []);
});
