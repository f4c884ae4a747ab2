// The hour in Postgres, on both stores: counted exactly there while the ledger is away, and never below what the ledger told.
import { createUser } from '../../src/account/users.js';
import type { Sql } from '../../src/store/postgres.js';
import { createQuotaHours } from '../../src/store/quota-hours.js';
import { onEachStore, open } from '../fixtures/stores.js';

async function newUser(sql: Sql, email = 'ada@example.com'): Promise<string> {
  const user = await createUser(sql, { email, name: 'Somebody', passwordHash: null, plan: 'FREE' });
  if (user.outcome !== 'created') throw new Error('The address is free');
  return user.userId;
}

const nobody = '00000000-0000-7000-8000-000000000000';

onEachStore(async (t, store) => {
  t.test('two hundred at once at a limit of fifty: exactly fifty', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const hours = createQuotaHours(sql);
    const userId = await newUser(sql);
    const counts = await Promise.all(Array.from({ length: 200 }, () => hours.take(userId, 50, null)));
    const windows = new Set(counts.map((count) => count.windowStartSeconds));
    const taken = counts.filter(({ kind }) => kind === 'taken');
    t.equal(taken.length, 50 * windows.size, 'each window its own');
    if (windows.size > 1) return;
    t.same(
      taken.map(({ direct }) => direct).sort((a, b) => a - b),
      Array.from({ length: 50 }, (_, index) => index + 1),
    );
    const [{ windowStartSeconds = 0, nowSeconds = 0 } = {}] = counts;
    t.equal(windowStartSeconds % 3600, 0);
    t.ok(nowSeconds >= windowStartSeconds && nowSeconds < windowStartSeconds + 3600);

    t.match(await hours.giveBack(userId, windowStartSeconds), { direct: 49 });
    t.match(await hours.take(userId, 50, null), { kind: 'taken', direct: 50 });
    t.equal(await hours.giveBack(userId, windowStartSeconds - 3600), null, 'an hour that never was');
  });

  t.test('what the ledger counted stands, as this node saw it or as it was told', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const hours = createQuotaHours(sql);
    const userId = await newUser(sql);
    const other = await newUser(sql, 'eve@example.com');
    const { windowStartSeconds } = await hours.take(userId, 10, null);
    t.match(await hours.take(userId, 10, { windowStartSeconds, counted: 8 }), {
      kind: 'taken',
      mirrored: 8,
      direct: 2,
    });
    t.match(await hours.take(userId, 10, null), { kind: 'exhausted', mirrored: 8, direct: 2 });
    t.match(await hours.take(userId, 10, { windowStartSeconds: windowStartSeconds - 3600, counted: 99 }), {
      kind: 'exhausted',
      mirrored: 8,
    });
    const told = new Map([
      [userId, { windowStartSeconds, counted: 5 }],
      [other, { windowStartSeconds, counted: 3 }],
      [nobody, { windowStartSeconds, counted: 1 }],
    ]);
    const rows = await hours.mirror(told);
    t.same(
      new Map(rows.map(({ userId, mirrored, direct }) => [userId, { mirrored, direct }])),
      new Map([
        [userId, { mirrored: 8, direct: 2 }],
        [other, { mirrored: 3, direct: 0 }],
      ]),
      'counts only grow, and a user who is gone has none',
    );
    t.match(await hours.read(userId), [{ userId, windowStartSeconds, mirrored: 8, direct: 2 }]);
    t.equal((await hours.current()).length, 2);
    await sql`UPDATE quota_hours SET window_start = window_start - 6 * 3600 WHERE user_id = ${other}`;
    t.equal((await hours.current()).length, 1);
    await hours.sweep();
    t.same(await hours.read(other), []);
    t.equal((await hours.read(userId)).length, 1);
  });

  t.test('a user who is gone is counted nowhere', async (t) => {
    const { sql } = await open(t, await store.target(t));
    await t.rejects(createQuotaHours(sql).take(nobody, 10, null), /could not be counted/);
  });
});
