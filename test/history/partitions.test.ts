// The months of the history, on both stores: made ahead, made where they are missing, and dropped when all clocks say so.
import { partition } from '../../src/history/history.js';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { rowAt } from '../fixtures/history.js';
import { onEachStore, open } from '../fixtures/stores.js';
import { emptyHistory, idsOf, partitionsOf, wrongCounts } from './stored-rows.js';

const NOON = Date.parse('2026-11-21T12:00:00Z');
const DAY_MS = 86_400_000;

onEachStore(async (t, store) => {
  const target = await store.target(t);
  const { sql } = await open(t, target);
  t.beforeEach(() => emptyHistory(sql));

  t.test('months are made ahead, once, also by several processes at the same time', async (t) => {
    const nodes = await Promise.all(Array.from({ length: 3 }, () => open(t, target)));
    const options = { retentionDays: 400, now: () => NOON, onRetention: () => t.fail(), onFailure: () => t.fail() };
    await Promise.all(nodes.map(({ sql }) => partition({ sql, ...options })));
    t.strictSame(await partitionsOf(sql), ['scans_202611', 'scans_202612', 'scans_202701']);
  });

  t.test('a row whose month is missing, or was dropped behind our back, finds it made', async (t) => {
    const save = createRowStore(sql);
    const far = rowAt(Date.parse('2031-02-28T23:59:59.999Z'));
    await save([far, rowAt(NOON)]);
    await sql`DROP TABLE scans_203102`;
    const again = rowAt(Date.parse('2031-02-01T00:00:00Z'));
    await t.rejects(save([again]), { code: '23514' });
    await save([again]);
    t.ok((await idsOf(sql)).includes(again.id));
  });

  t.test(
    'retention drops a month a day, each announced a day before, with its counts; what is younger stays',
    async (t) => {
      const now = Date.now();
      const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7);
      const days = [0, 29, 30, 61, 90, 200, 399, 440, 480, 800];
      const rows = days.map((day) => rowAt(now - day * DAY_MS));
      await createRowStore(sql)(rows);
      const said: string[] = [];
      const options = { sql, retentionDays: 400, now: () => now, onFailure: () => t.fail() };
      const run = () => partition({ ...options, onRetention: (step, month) => said.push(`${step} ${month}`) });
      const aDayGoesBy = () => sql`UPDATE scan_retention SET announced_at = announced_at - interval '25 hours'`;
      const old = rows.slice(7).map(({ id }) => id);
      const oldMonths = [...new Set([800, 480, 440].map((day) => monthOf(now - day * DAY_MS)))];
      const kept = rows.filter(({ id }) => !old.includes(id)).map(({ id }) => id);
      for (const [index, month] of oldMonths.entries()) {
        await run();
        await run();
        t.strictSame(
          said.splice(0),
          index === 0 ? [`announced ${month}`] : [],
          'nothing is dropped before a day has gone by',
        );
        t.equal((await idsOf(sql)).filter((id) => old.includes(id)).length, oldMonths.length - index);
        await aDayGoesBy();
        await run();
        const next = oldMonths[index + 1];
        t.strictSame(said.splice(0), [`dropped ${month}`, ...(next === undefined ? [] : [`announced ${next}`])]);
      }
      t.strictSame(await idsOf(sql), kept.sort());
      t.strictSame(await wrongCounts(sql), []);
      await run();
      t.strictSame(said, [], 'nothing is left to drop');
    },
  );

  t.test('nothing is dropped on the word of one clock, nor of one that was wrong for less than a day', async (t) => {
    const now = Date.now();
    const onRetention = (step: string, month: string): void => {
      t.fail(`${step} ${month}`);
    };
    const options = { sql, retentionDays: 400, onFailure: () => t.fail() };
    // The caller's clock alone.
    const rows = [0, 200, 390].map((day) => rowAt(now - day * DAY_MS));
    await createRowStore(sql)(rows);
    for (const days of [500, 5_000]) await partition({ ...options, now: () => now + days * DAY_MS, onRetention });
    // The newest row is old as well: by the others it is beyond the retention, by that one it isn't.
    await sql`TRUNCATE scan_days`;
    for (const name of await partitionsOf(sql)) await sql.unsafe(`DROP TABLE ${name}`);
    const early = [700, 900].map((day) => rowAt(now - day * DAY_MS));
    await createRowStore(sql)(early);
    await partition({ ...options, now: () => now, onRetention });
    t.strictSame(await idsOf(sql), early.map(({ id }) => id).sort());
    // A clock that was ahead when it announced a month.
    await createRowStore(sql)([rowAt(now)]);
    const [month] = await sql<{ first: string }[]>`SELECT to_char(min(day), 'YYYY-MM-01') AS first FROM scan_days`;
    await sql`INSERT INTO scan_retention (month, announced_at) VALUES (${month?.first ?? ''}::text::date, now() + interval '500 days')`;
    const said: string[] = [];
    await partition({ ...options, now: () => now, onRetention: (step) => said.push(step) });
    t.strictSame(said, ['announced']);
    t.equal((await idsOf(sql)).length, 3);
  });
});
