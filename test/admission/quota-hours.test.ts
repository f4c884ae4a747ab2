// The hour in Postgres, on both stores: counted exactly there while the ledger is away, and never below what the ledger has counted.
import { createUser } from '../../src/account/users.js';
import type { QuotaHour } from '../../src/admission/admission.js';
import type { Count } from '../../src/admission/ledger.js';
import { createQuotaHours } from '../../src/admission/quota-hours.js';
import { createQuotaMirror } from '../../src/admission/quota-mirror.js';
import type { Sql } from '../../src/store/postgres.js';
import { StoreAway } from '../../src/store/store-error.js';
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

  t.test('what the ledger counted stands, as this node saw it or as another one reported it', async (t) => {
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

  t.test('counts are copied here though the ledger is away, which hears later of what was counted here', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const hours = createQuotaHours(sql);
    const userId = await newUser(sql);
    const { windowStartSeconds, nowSeconds } = await hours.take(userId, 10, null);
    const countOf = (counted: number): Count => {
      return { kind: 'taken', limit: 10, counted, direct: 0, windowStartSeconds, nowSeconds };
    };
    let fault: Error | null = new StoreAway('down');
    const told: QuotaHour[][] = [];
    const mirror = createQuotaMirror(hours, async (direct) => {
      if (fault !== null) throw fault;
      told.push(direct);
    });
    mirror.saw(userId, countOf(3));
    await mirror.flush();
    t.match(await hours.read(userId), [{ mirrored: 3, direct: 1 }]);
    fault = new TypeError('a mistake of ours');
    mirror.saw(userId, countOf(4));
    await t.rejects(mirror.flush(), fault);
    t.match(await hours.read(userId), [{ mirrored: 4, direct: 1 }]);
    fault = null;
    await mirror.flush();
    t.same(told, [], 'there was nothing new');
    mirror.saw(userId, countOf(5));
    mirror.saw(userId, countOf(2));
    t.match(mirror.seen(userId), { counted: 5 });
    await mirror.flush();
    t.same(told, [[{ userId, windowStartSeconds, mirrored: 0, direct: 1 }]]);
  });

  t.test('counts that could not be written are kept, and written when they can be', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const hours = createQuotaHours(sql);
    const [ada, eve] = [await newUser(sql), await newUser(sql, 'eve@example.com')];
    const { windowStartSeconds, nowSeconds } = await hours.take(eve, 10, null);
    const mirror = createQuotaMirror(hours, async () => undefined);
    const saw = (userId: string, counted: number): void =>
      mirror.saw(userId, { kind: 'taken', limit: 10, counted, direct: 0, windowStartSeconds, nowSeconds });
    saw(ada, 3);
    saw(eve, 4);
    await sql`ALTER TABLE quota_hours RENAME TO hidden`;
    await t.rejects(mirror.flush(), /quota_hours/);
    await t.rejects(mirror.flush(), /quota_hours/);
    saw(eve, 5);
    await sql`ALTER TABLE hidden RENAME TO quota_hours`;
    await mirror.flush();
    t.match(await hours.read(ada), [{ mirrored: 3 }]);
    t.match(await hours.read(eve), [{ mirrored: 5, direct: 1 }]);
  });
});
