// Two processes whose clocks are wrong by a minute and a half, at the end of an hour: windows and waits are those of the ledger's clock.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import t from 'tap';
import { z } from 'zod';
import { createKey } from '../../src/account/keys.js';
import { hashOfKey } from '../../src/store/keys.js';
import { openPostgres } from '../../src/store/postgres.js';
import { admissionNodePath } from '../fixtures/admission-node-path.js';
import { newUser } from '../fixtures/new-user.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';

const LIMIT = 1_000;
const HOUR_SECONDS = 3600;
/** Until the hour of the ledger's clock ends: first long enough to use it up on a machine however slow, then as good as over. */
const SECONDS_LEFT = { first: 1800, last: 2 } as const;
const Counts = z.record(z.string(), z.int());

t.test('clocks 90 s ahead and 90 s behind: each hour gives exactly its limit, and Retry-After is right', async (t) => {
  const postgres = await startPostgres({ t });
  const redis = await startRedis({ t });
  const url = await postgres.database();
  const { sql, close } = await openPostgres({ kind: 'url', url });
  t.teardown(() => close());
  const { value } = await createKey(sql, { userId: await newUser(sql), name: 'one' });
  const nodes = await Promise.all(
    [90, -90].map(async (skew) => {
      const settings = [redis.url, url, hashOfKey(value), LIMIT, 0, skew].map(String);
      const child = spawn(process.execPath, [admissionNodePath, ...settings], { stdio: ['pipe', 'pipe', 'inherit'] });
      t.teardown(() => child.kill('SIGKILL'));
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      const answer = async (): Promise<string> => String((await lines.next()).value);
      await answer();
      return (order: string): Promise<string> => {
        child.stdin.write(`${order}\n`);
        return answer();
      };
    }),
  );
  const ask = (order: string): Promise<string[]> => Promise.all(nodes.map((node) => node(order)));
  const total = new Map<string, number>();
  async function takeUntilExhausted(hours: number): Promise<void> {
    while ([...total.keys()].filter((what) => what.startsWith('exhausted')).length < hours) {
      for (const answer of await ask('take 500')) {
        for (const [what, count] of Object.entries(Counts.parse(JSON.parse(answer)))) {
          total.set(what, (total.get(what) ?? 0) + count);
        }
      }
    }
  }
  const clockWith = (secondsLeft: number): number =>
    HOUR_SECONDS - (Math.floor(Date.now() / 1000) % HOUR_SECONDS) - secondsLeft;
  await ask(`clock ${clockWith(SECONDS_LEFT.first)}`);
  await takeUntilExhausted(1);
  await ask(`clock ${clockWith(SECONDS_LEFT.last)}`);
  await takeUntilExhausted(2);
  const admitted = [...total].filter(([what]) => what.startsWith('admitted'));
  t.same(
    admitted.map(([, count]) => count),
    [LIMIT, LIMIT],
    JSON.stringify([...total]),
  );
  t.notOk(total.has('wrong Retry-After'), JSON.stringify([...total]));
});
