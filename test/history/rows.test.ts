// Rows in the database, on both stores: each once however often it comes, counts that equal the rows, months made and dropped.

import { openJournal } from '../../src/history/journal.js';
import { partition } from '../../src/history/partitions.js';
import { createRowStore } from '../../src/history/rows-to-database.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import { startWriter } from '../../src/history/writer.js';
import type { Sql } from '../../src/store/postgres.js';
import { BOB, rowAt } from '../fixtures/history.js';
import { makeTransactionsRepeatable, onEachStore, open, temporaryFolder } from '../fixtures/stores.js';

const NOON = Date.parse('2026-11-21T12:00:00Z');
const DAY_MS = 86_400_000;

function mixedRows(count: number): ScanRow[] {
  return Array.from({ length: count }, (_, index) =>
    rowAt(NOON - index * 7 * 3_600_000, {
      ...(index % 2 === 0 ? {} : { userId: BOB }),
      ...(index % 3 === 0 ? { virusName: 'Eicar' } : {}),
      ...(index % 5 === 0 ? { status: 422, virusName: null, error: 'Scan incomplete: a limit' } : {}),
    }),
  );
}

async function idsOf(sql: Sql): Promise<string[]> {
  return (await sql<{ id: string }[]>`SELECT id FROM scans ORDER BY id`).map(({ id }) => id);
}

/** Days whose counts aren't those of their rows. */
async function wrongCounts(sql: Sql): Promise<unknown[]> {
  return [
    ...(await sql`
      SELECT * FROM (
        SELECT user_id, (creation_date AT TIME ZONE 'UTC')::date AS day, status, infected, count(*) AS scans
        FROM scans GROUP BY 1, 2, 3, 4
      ) AS counted FULL JOIN scan_days USING (user_id, day, status, infected)
      WHERE counted.scans IS DISTINCT FROM scan_days.scans`),
  ];
}

async function partitionsOf(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'scans'::regclass ORDER BY 1`;
  return rows.map(({ name }) => name);
}

onEachStore(async (t, store) => {
  const target = await store.target(t);
  const { sql } = await open(t, target);
  // One database for all: an embedded one takes seconds to come up.
  t.beforeEach(async () => {
    await sql`SELECT drop_scan_partitions('3000-01-01')`;
  });

  t.test('what has looked is kept with the row, for those that a weaker engine has answered', async (t) => {
    const save = createRowStore(sql);
    const rows = ['clamav/1.4.6', 'yara-x/1.7.1', null].map((engine, index) => rowAt(NOON + index, { engine }));
    await save(rows);
    const stored = await sql<{ engine: string | null }[]>`SELECT engine FROM scans ORDER BY id`;
    t.strictSame(
      stored.map(({ engine }) => engine),
      ['clamav/1.4.6', 'yara-x/1.7.1', null],
    );
  });

  t.test('a batch that comes again, or with others, adds nothing twice', async (t) => {
    const save = createRowStore(sql);
    const rows = mixedRows(60);
    await save(rows.slice(0, 40));
    await save(rows.slice(0, 40));
    await save([...rows.slice(20), ...rows.slice(50)]);
    t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
    t.strictSame(await wrongCounts(sql), []);
  });

  t.test('the same rows from several processes at once are there once', async (t) => {
    await makeTransactionsRepeatable(sql);
    const stores = await Promise.all(
      Array.from({ length: 3 }, async () => createRowStore((await open(t, target)).sql)),
    );
    const rows = mixedRows(120);
    const orders = [rows, [...rows].reverse(), rows.slice(30)];
    const attempts = stores.map(async (save, index) => {
      // A deadlock of rows in opposite orders is an error for one of them, which tries again, as the writer does.
      for (;;) {
        try {
          return await save(orders[index] ?? []);
        } catch (error) {
          t.match(error, { code: '40P01' });
        }
      }
    });
    await Promise.all(attempts);
    t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
    t.strictSame(await wrongCounts(sql), []);
  });

  t.test('texts of every kind are stored as they are', async (t) => {
    const names = ['', '"', '\\', '{a,b}', 'NULL', 'null', "'; DROP TABLE scans; --", '\u{1f600}', 'a\tb\nc', '  '];
    const rows = names.map((filename, index) =>
      rowAt(NOON + index, { filename, virusName: filename, error: filename, env: filename }),
    );
    await createRowStore(sql)(rows);
    const stored = await sql`SELECT filename, virus_name, error, env FROM scans ORDER BY id`;
    t.strictSame(
      stored.map(({ filename, virus_name, error, env }) => [filename, virus_name, error, env]),
      names.map((name) => [name, name, name, name]),
    );
  });

  t.test('a reply that is lost after the commit changes nothing: the writer sends the batch again', async (t) => {
    const journal = await openJournal({
      directory: temporaryFolder(t),
      limitBytes: 1e9,
      onDamage: (damage) => t.fail('damage', { damage }),
    });
    const save = createRowStore(sql);
    const rows = mixedRows(30);
    let attempts = 0;
    let recovered = (): void => undefined;
    const recovery = new Promise<void>((resolve) => {
      recovered = resolve;
    });
    const writer = startWriter({
      journal,
      store: async (batch) => {
        attempts += 1;
        await save(batch);
        if (attempts < 3) throw new Error('the connection was lost');
      },
      onFailure: () => undefined,
      onRecovery: recovered,
    });
    for (const row of rows) await journal.append(row);
    await recovery;
    await writer.stop(10_000);
    t.ok(attempts >= 3);
    t.equal(journal.state().rows, 0);
    t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
    t.strictSame(await wrongCounts(sql), []);
    await journal.close();
  });

  t.test('months are made ahead, once, whoever starts at the same time', async (t) => {
    const nodes = await Promise.all(Array.from({ length: 3 }, () => open(t, target)));
    const options = { retentionDays: 400, now: () => NOON, onDropped: () => t.fail(), onFailure: () => t.fail() };
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

  t.test('retention drops whole months with their counts, and what is younger stays', async (t) => {
    const save = createRowStore(sql);
    const days = [0, 29, 30, 61, 90, 200, 399, 401, 430, 440, 800];
    const rows = days.map((day) => rowAt(NOON - day * DAY_MS));
    await save(rows);
    const dropped: number[] = [];
    const options = { sql, retentionDays: 400, now: () => NOON, onFailure: () => t.fail() };
    await partition({ ...options, onDropped: (months) => dropped.push(months) });
    // 400 days before 2026-11-21 lie in October 2025: everything from its first day on stays.
    const kept = rows.filter((_, index) => NOON - (days[index] ?? 0) * DAY_MS >= Date.parse('2025-10-01T00:00:00Z'));
    t.equal(kept.length, 8);
    t.strictSame(await idsOf(sql), kept.map(({ id }) => id).sort());
    t.strictSame(await wrongCounts(sql), []);
    t.strictSame(dropped, [2]);
    await partition({ ...options, onDropped: () => t.fail('nothing is left to drop') });
  });
});
