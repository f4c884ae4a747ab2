// Accounts that share scan threads, with real threads: who has none is never kept waiting by scans that can't be stopped, and what stands in is bounded.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { start } from '../../fixtures/command.js';
import { faultEnvironment } from '../../fixtures/faults.js';
import { bodySignature, databaseFolder, temporaryFolder } from '../../native/engine.js';

const report = z.object({
  first: z.object({ kinds: z.array(z.string()), ended: z.array(z.string()) }),
  waiting: z.number(),
  accountsWaiting: z.number(),
  ended: z.array(z.string()),
  standIns: z.number(),
  lastKind: z.string(),
});

t.test('scans of one account hold all threads: others stand in for them, a bounded number', async (t) => {
  const program = fileURLToPath(new URL('./dispatcher-program.js', import.meta.url));
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  const { stdout, stderr, code } = await start(t, program, [databases, temporaryFolder(t)], { env: faultEnvironment })
    .ended;
  t.equal(code, 0, stderr);
  const { first, waiting, accountsWaiting, ended, standIns, lastKind } = report.parse(JSON.parse(stdout));
  t.strictSame(first.kinds, ['alone', 'alone', 'alone', 'standIn', 'standIn', 'standIn']);
  t.strictSame(first.ended, ['alone', 'small', 'small', 'small'], 'none of those that hold the threads has ended');
  t.same({ waiting, accountsWaiting }, { waiting: 3, accountsWaiting: 2 }, 'no more than two may stand in');
  t.ok(ended.indexOf('last') > ended.indexOf('many'), 'it waited for a thread to come free');
  t.ok(ended.indexOf('last') < ended.lastIndexOf('many'), 'and had the next one');
  t.equal(standIns, 0);
  t.equal(lastKind, 'alone');
});
