// The hour in Postgres, on both stores: counted exactly there while the ledger is away, and never below what the ledger has counted.
import type { Count, QuotaHour } from '../../src/admission/admission.js';
import { createQuotaHours, type QuotaHours } from '../../src/admission/quota-hours.js';
import { createQuotaMirror, createRefusals } from '../../src/admission/quota-mirror.js';
import { StoreAway } from '../../src/store/store-error.js';
import { REMEMBERED_MAX } from '../fixtures/accounts.js';
import { newUser } from '../fixtures/new-user.js';
import { onEachStore, open, type Tap } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';

const nobody = '00000000-0000-7000-8000-000000000000';

function mirrorOf(t: Tap, hours: QuotaHours, onDirect: (direct: QuotaHour[]) => Promise<void> = async () => undefined) {
  const mirror = createQuotaMirror(hours, { onDirect, onFailure: () => undefined, usersMax: REMEMBERED_MAX });
  t.teardown(() => mirror.stop());
  return mirror;
}

onEachStore(async (t, store) => {
  t.test('a day by the hour, with what was refused by two processes', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const hours = createQuotaHours(sql);
    const userId = await newUser(sql);
    const { windowStartSeconds } = await hours.take(userId, 10, null);
    const nodes = [1, 2].map(() => createRefusals(hours, (problem) => t.fail(problem)));
    for (const refusals of nodes) {
      t.teardown(() => refusals.stop());
      for (let count = 0; count < 3; count += 1) refusals.count(userId, windowStartSeconds);
      refusals.count(userId, windowStartSeconds - 3600);
      refusals.count(nobody, windowStartSeconds);
      await refusals.flush();
    }
    // The next hour may have just begun.
    const present = await hours.present(userId);
    t.equal(present.used, present.windowStartSeconds === windowStartSeconds ? 1 : 0);
    const day = await hours.lastDay(userId);
    t.equal(day.length, 24);
    const from = day.findIndex((hour) => hour.windowStartSeconds === windowStartSeconds);
    t.match(day.slice(from - 1, from + 1), [
      { used: 0, refused: 2 },
      { used: 1, refused: 6 },
    ]);
    t.ok(from >= 22, 'this hour is the last one, or the next has just begun');
    t.equal(
      day.reduce((all, { refused }) => all + refused, 0),
      8,
      'what is written is written once',
    );
    await sql`UPDATE refused_hours SET window_start = window_start - 30 * 3600 WHERE window_start < ${windowStartSeconds}`;
    await hours.sweep();
    t.equal((await sql`SELECT FROM refused_hours`).length, 1);
  });

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

    t.match(await hours.giveBack(userId, windowStartSeconds), { direct: 50, directReturned: 1 });
    t.match(await hours.take(userId, 50, null), { kind: 'taken', direct: 51, directReturned: 1 });
    t.equal(await hours.giveBack(userId, windowStartSeconds - 3600), null, 'an hour that never was');
  });

  t.test('what the ledger counted stands, as this node saw it or as another one reported it', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const hours = createQuotaHours(sql);
    const userId = await newUser(sql);
    const other = await newUser(sql, 'eve@example.com');
    const { windowStartSeconds } = await hours.take(userId, 10, null);
    t.match(await hours.take(userId, 10, { userId, windowStartSeconds, counted: 9, returned: 1 }), {
      kind: 'taken',
      mirrored: 9,
      returned: 1,
      direct: 2,
    });
    t.match(await hours.take(userId, 10, null), { kind: 'exhausted', mirrored: 9, direct: 2 });
    const earlier = { userId, windowStartSeconds: windowStartSeconds - 3600, counted: 99, returned: 98 };
    t.match(await hours.take(userId, 10, earlier), { kind: 'exhausted', mirrored: 9, returned: 1 });
    const told = [
      { userId, windowStartSeconds, counted: 5, returned: 0 },
      { userId: other, windowStartSeconds, counted: 3, returned: 2 },
      { userId: nobody, windowStartSeconds, counted: 1, returned: 0 },
    ];
    const rows = await hours.mirror(told);
    t.same(
      new Map(rows.map(({ userId, mirrored, returned, direct }) => [userId, { mirrored, returned, direct }])),
      new Map([
        [userId, { mirrored: 9, returned: 1, direct: 2 }],
        [other, { mirrored: 3, returned: 2, direct: 0 }],
      ]),
      'counts only grow, and a user who is gone has none',
    );
    t.match(await hours.read(userId), [{ userId, windowStartSeconds, mirrored: 9, returned: 1, direct: 2 }]);
    t.equal((await hours.current()).length, 2);
    t.match(await hours.giveBack(other, windowStartSeconds), { mirrored: 3, returned: 3, direct: 0 });
    t.match(await hours.giveBack(other, windowStartSeconds), { returned: 3 }, 'never more than were taken');
    await sql`UPDATE quota_hours SET window_start = window_start - 30 * 3600 WHERE user_id = ${other}`;
    await sql`
      INSERT INTO quota_hours (user_id, window_start, mirrored)
      SELECT user_id, window_start - 3600, 1 FROM quota_hours WHERE user_id = ${other}`;
    t.equal((await hours.current()).length, 1);
    await hours.sweep();
    t.match(
      await hours.read(other),
      [{ windowStartSeconds: windowStartSeconds - 30 * 3600 }],
      'one hour at a time: a clock that is days ahead for a while takes little away',
    );
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
      return { kind: 'taken', limit: 10, counted, returned: 0, direct: 0, windowStartSeconds, nowSeconds };
    };
    let fault: Error | null = new StoreAway('down');
    const told: QuotaHour[][] = [];
    const mirror = mirrorOf(t, hours, async (direct) => {
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
    t.same(told, [[{ userId, windowStartSeconds, mirrored: 0, returned: 0, direct: 1, directReturned: 0 }]]);
  });

  t.test('counts that could not be written are kept, and written when they can be', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const hours = createQuotaHours(sql);
    const [ada, eve] = [await newUser(sql), await newUser(sql, 'eve@example.com')];
    const { windowStartSeconds } = await hours.take(eve, 10, null);
    const mirror = mirrorOf(t, hours);
    const saw = (userId: string, counted: number): void =>
      mirror.saw(userId, { counted, returned: 0, windowStartSeconds });
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

  t.test(
    'hours that come in any order, as a clock is set, are each copied; units that came back at once',
    async (t) => {
      const { sql } = await open(t, await store.target(t));
      const hours = createQuotaHours(sql);
      const userId = await newUser(sql);
      const { windowStartSeconds } = await hours.take(userId, 10, null);
      const mirror = mirrorOf(t, hours);
      const later = windowStartSeconds + 3 * 3600;
      mirror.saw(userId, { windowStartSeconds, counted: 3, returned: 0 });
      mirror.saw(userId, { windowStartSeconds: later, counted: 1, returned: 0 });
      mirror.saw(userId, { windowStartSeconds, counted: 2, returned: 1 });
      await mirror.flush();
      t.match(await hours.read(userId), [
        { windowStartSeconds, mirrored: 3, returned: 1 },
        { windowStartSeconds: later, mirrored: 1 },
      ]);
      mirror.sawUrgently(userId, { windowStartSeconds, counted: 3, returned: 2 });
      await until(async () => (await hours.read(userId))[0]?.returned === 2);
    },
  );
});
