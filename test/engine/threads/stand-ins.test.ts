// Scans that take long, with real threads: no short one waits behind them, its own account's or another's, and the threads beside the set are bounded.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { start } from '../../fixtures/command.js';
import { faultEnvironment } from '../../fixtures/faults.js';
import { temporaryFolder } from '../../fixtures/folder.js';
import { bodySignature, databaseFolder } from '../../native/engine.js';

const report = z.object({
  first: z.object({
    kinds: z.array(z.string()),
    ended: z.array(z.string()),
    running: z.number(),
    waiting: z.number(),
  }),
  openForLarge: z.number(),
  bound: z.object({
    standIns: z.number(),
    waiting: z.number(),
    accountsWaiting: z.number(),
    threadsOpen: z.number(),
    ended: z.array(z.string()),
    lastKind: z.string(),
  }),
  together: z.object({ running: z.number(), standIns: z.number() }),
});

t.test(
  'no short scan waits for long ones: for large content there are other threads, and for small content that takes long further ones, given back but for one of each',
  async (t) => {
    const program = fileURLToPath(new URL('./stand-ins-program.js', import.meta.url));
    const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
    const { stdout, stderr, code } = await start(t, program, [databases, temporaryFolder(t)], { env: faultEnvironment })
      .ended;
    t.equal(code, 0, stderr);
    const { first, openForLarge, bound, together } = report.parse(JSON.parse(stdout));
    const shorts = ['one: fail 20', 'one: fail 20', 'one: fail 20', 'one: fail 20', 'one: fail 20', 'another: fail 20'];
    t.strictSame(first.ended, shorts, 'none of those that hold the threads has ended');
    t.strictSame(first.kinds.slice(4), ['alone', 'alone', 'alone', 'alone'], 'they have threads of their own');
    t.strictSame(
      [first.running, first.waiting],
      [2, 2],
      'large ones of one account wait for as many threads as the set has',
    );

    t.equal(openForLarge, 4, 'both sets, and none ahead for large content');
    t.equal(bound.standIns, 4);
    t.ok(bound.threadsOpen <= 10, `${bound.threadsOpen} threads`);
    t.equal(bound.accountsWaiting, 2, 'one account has what it may hold, and for the last one there is no thread');
    t.equal(bound.waiting, 3);
    t.ok(bound.ended.indexOf('four: fail 20') < 7, 'it had the first one that came free');
    t.equal(bound.lastKind, 'alone');
    t.strictSame(together, { running: 2, standIns: 0 }, 'large content has the set');
  },
);
