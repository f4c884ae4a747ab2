// What the ledger leaves in Redis: nothing without an end, no record without a bound, no flood when many things change at once.
import t from 'tap';
import { HOURS_KEPT, type Ledger, RECORD_KEYS_MAX } from '../../src/admission/admission.js';
import { createQuotaHours } from '../../src/admission/quota-hours.js';
import { createRedisLedger, raiseScript, revokeScript } from '../../src/admission/redis-ledger.js';
import { reconcileLedger } from '../../src/service/stores.js';
import { openPostgres } from '../../src/store/postgres.js';
import type { Script } from '../../src/store/redis/redis.js';
import { openRedis } from '../../src/store/redis/redis.js';
import { newUser } from '../fixtures/new-user.js';
import { startPostgres } from '../fixtures/postgres.js';
import { patient, startRedis } from '../fixtures/redis.js';

const server = await startRedis({ t });
const redis = await openRedis({
  url: server.url,
  onReturn: async () => undefined,
  onProblem: (problem) => t.fail(problem),
  ...patient,
});
t.teardown(() => redis.close());

const HASH = 'a'.repeat(64);
const DAY_MS = 86_400_000;
let hours = 0;
const ledger = createRedisLedger(redis, { clockOffsetSeconds: () => hours * 3600 });

/** What is left of each key's life in milliseconds; -1: it has no end. */
async function lives(): Promise<number[]> {
  const keys = await server.client.keys('*');
  return await Promise.all(keys.map((key) => server.client.pttl(key)));
}

t.test('whatever step is the last one, every key has an end', async (t) => {
  const hour = { userId: 'u', windowStartSeconds: 3600, mirrored: 3, returned: 1, direct: 4, directReturned: 2 };
  const facts = { key: { hash: HASH, keyId: 'k' }, hourlyLimit: 10, hours: [hour] };
  const steps: [string, (ledger: Ledger) => Promise<unknown>][] = [
    ['begin', (it) => it.begin('u')],
    ['fill', async (it) => it.fill('u', await it.begin('u'), facts)],
    ['fill, refused', (it) => it.fill('u', 'no token', facts)],
    ['take', async (it) => it.take('u', HASH)],
    ['giveBack', (it) => it.giveBack('u', 3600)],
    ['raise', (it) => it.raise([hour])],
    ['revoke', (it) => it.revoke('u', HASH)],
    ['setLimit', (it) => it.setLimit('u', 5)],
    ['rememberOwner', (it) => it.rememberOwner(HASH, { userId: 'u', keyId: 'k' })],
  ];
  for (const [name, step] of steps) {
    await server.client.flushall();
    await step(ledger);
    for (const left of await lives()) t.ok(left > 0, `${name} alone: ${left} ms`);
  }
  await server.client.flushall();
  for (const [name, step] of steps) {
    await step(ledger);
    const left = await lives();
    t.ok(left.length > 0 && left.every((ms) => ms > 0), `and then ${name}: ${left.join(', ')} ms`);
  }
});

t.test(
  'a key that was used within a day is known, and whose it is; counts of hours that are over are not',
  async (t) => {
    await server.client.flushall();
    const facts = { key: { hash: HASH, keyId: 'k' }, hourlyLimit: 10, hours: [] };
    await ledger.fill('u', await ledger.begin('u'), facts);
    await ledger.rememberOwner(HASH, { userId: 'u', keyId: 'k' });
    for (hours = 0; hours < 60; hours += 1) {
      t.match(await ledger.take('u', HASH), { kind: 'taken', counted: 1 });
      t.ok((await lives()).every((left) => left > DAY_MS));
    }
    const fields = await server.client.hkeys('sluice:{u:u}');
    t.equal(fields.filter((field) => /^[qbpr]:/.test(field)).length, HOURS_KEPT, fields.join(' '));
    hours = 0;
  },
);

t.test('a record stays small whatever is ended in its life', async (t) => {
  await server.client.flushall();
  for (let ended = 0; ended < 3 * RECORD_KEYS_MAX; ended += 1) {
    await ledger.revoke('u', String(ended).padStart(64, '0'));
    if (ended % 50 === 0) t.ok((await server.client.hlen('sluice:{u:u}')) <= RECORD_KEYS_MAX + 1);
  }
  t.match(await ledger.take('u', '749'.padStart(64, '0')), { kind: 'revoked' }, 'the last one');
});

t.test(
  'a Redis that returns gets what ended in two days, the last first, and then what Postgres counted, in bounds',
  async (t) => {
    const postgres = await startPostgres({ t });
    const { sql, close } = await openPostgres({ kind: 'url', url: await postgres.database() });
    t.teardown(() => close());
    const userId = await newUser(sql);
    await sql`
    INSERT INTO api_keys (id, user_id, name, hash, prefix, suffix, revoked_at)
    SELECT gen_random_uuid(), ${userId}, 'n', sha256(n::text::bytea), 'aaaa', 'aaaa', now() - n * interval '1 minute'
    FROM generate_series(1, 2000) n`;
    await sql`
    INSERT INTO api_keys (id, user_id, name, hash, prefix, suffix, revoked_at)
    VALUES (gen_random_uuid(), ${userId}, 'old', sha256('old'), 'aaaa', 'aaaa', now() - interval '3 days')`;
    const hours = createQuotaHours(sql);
    await hours.take(userId, 10, null);
    let running = 0;
    let most = 0;
    const told: unknown[] = [];
    const scripts: Script[] = [];
    const counting = createRedisLedger({
      ...redis,
      async run(script, key, ...args) {
        running += 1;
        most = Math.max(most, running);
        told.push(args[0]);
        scripts.push(script);
        await redis.run(script, key, ...args).finally(() => {
          running -= 1;
        });
        return 1;
      },
    });
    await reconcileLedger(counting, hours, sql);
    t.equal(told.length, 2_001);
    t.same(new Set(scripts.slice(0, 2_000)), new Set([revokeScript]), 'who may comes before how much');
    t.equal(scripts.at(-1), raiseScript);
    t.ok(most <= 200, `${most} at one time`);
    const [last] = await sql<{ hash: string }[]>`SELECT encode(sha256('1'), 'hex') AS hash`;
    t.equal(told[0], last?.hash, 'the one that ended last');
  },
);
