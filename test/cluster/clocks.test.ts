// Two processes whose clocks are wrong by a minute and a half, at the end of an hour: windows and waits are those of the ledger's clock.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import t from 'tap';
import { z } from 'zod';
import { hashOfKey } from '../../src/account/access.js';
import { createKey } from '../../src/account/keys.js';
import { createUser } from '../../src/account/users.js';
import { openPostgres } from '../../src/store/postgres.js';
import { admissionNodePath } from '../fixtures/admission-node-path.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';

const LIMIT = 1_000;
/** Until the hour ends when the processes are started. */
const SECONDS_LEFT = 4;
const Counts = z.record(z.string(), z.int());

t.test('clocks 90 s ahead and 90 s behind: each hour gives exactly its limit, and Retry-After is right', async (t) => {
  const postgres = await startPostgres();
  t.teardown(() => postgres.stop());
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const url = await postgres.database();
  const { sql, close } = await openPostgres({ kind: 'url', url });
  t.teardown(() => close());
  const user = await createUser(sql, { email: 'ada@example.com', name: '', passwordHash: null, plan: 'FREE' });
  if (user.outcome !== 'created') throw new Error('The address is free');
  const { value } = await createKey(sql, { userId: user.userId, name: 'one' });
  const offset = 3600 - (Math.floor(Date.now() / 1000) % 3600) - SECONDS_LEFT;
  const nodes = await Promise.all(
    [90, -90].map(async (skew) => {
      const settings = [redis.url, url, hashOfKey(value), LIMIT, offset, skew].map(String);
      const child = spawn(process.execPath, [admissionNodePath, ...settings], { stdio: ['pipe', 'pipe', 'inherit'] });
      t.teardown(() => child.kill('SIGKILL'));
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      await lines.next();
      return async (): Promise<z.infer<typeof Counts>> => {
        child.stdin.write('take 500\n');
        return Counts.parse(JSON.parse(String((await lines.next()).value)));
      };
    }),
  );
  const total = new Map<string, number>();
  const exhaustedHours = () => [...total.keys()].filter((what) => what.startsWith('exhausted')).length;
  while (exhaustedHours() < 2) {
    for (const counts of await Promise.all(nodes.map((take) => take()))) {
      for (const [what, count] of Object.entries(counts)) total.set(what, (total.get(what) ?? 0) + count);
    }
  }
  const admitted = [...total].filter(([what]) => what.startsWith('admitted'));
  t.same(
    admitted.map(([, count]) => count),
    [LIMIT, LIMIT],
    JSON.stringify([...total]),
  );
  t.notOk(total.has('wrong Retry-After'), JSON.stringify([...total]));
});
