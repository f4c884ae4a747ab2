// One process of the admission race: `take N` on its stdin, the counts of what came of it on its stdout.
import { createInterface } from 'node:readline';
import { createKeyLoader } from '../src/account/keys.js';
import { createAdmissions } from '../src/store/admissions.js';
import { createLookups } from '../src/store/lookups.js';
import { openPostgres } from '../src/store/postgres.js';
import { createQuotaHours } from '../src/store/quota-hours.js';
import { openRedis } from '../src/store/redis.js';
import { createRedisLedger } from '../src/store/redis-ledger.js';

/** Admissions of one process that are on their way at one time. */
const CONCURRENT = 256;

const [redisUrl = '', databaseUrl = '', keyHash = '', limit = '', offset = ''] = process.argv.slice(2);
const postgres = await openPostgres({ kind: 'url', url: databaseUrl });
const onProblem = (problem: string): void => void process.stderr.write(`${problem}\n`);
const redis = await openRedis({ url: redisUrl, onReturn: async () => undefined, onProblem });
const store = createAdmissions({
  ledger: createRedisLedger(redis, { clockOffsetSeconds: () => Number(offset) }),
  lookups: createLookups(createKeyLoader(postgres.sql, () => Number(limit))),
  limitOf: async () => Number(limit),
  hours: createQuotaHours(postgres.sql),
  clock: Date.now,
  ledgerProblem: () => redis.problem(),
  onProblem,
});

async function take(count: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  let left = count;
  const run = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const admission = await store.admit(keyHash);
      const hour = 'quota' in admission ? ` in the hour before ${admission.quota.resetEpochSeconds}` : '';
      const what = `${admission.outcome}${hour}`;
      counts[what] = (counts[what] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT }, run));
  return counts;
}

process.stdout.write('ready\n');
for await (const line of createInterface({ input: process.stdin })) {
  const count = Number(/^take (\d+)$/.exec(line)?.[1]);
  process.stdout.write(`${JSON.stringify(await take(count))}\n`);
}
await store.stop();
redis.close();
await postgres.close();
