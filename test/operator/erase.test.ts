// The scans of accounts that are gone, removed in steps; those of others stay.
import { eraseScans } from '../../src/operator/changes.js';
import type { Sql } from '../../src/store/postgres.js';
import { BOB } from '../fixtures/history.js';
import { onEachStore, open } from '../fixtures/stores.js';
import { emptyHistory } from '../history/stored-rows.js';

const GONE = ['0190c5f0-0000-7000-8000-0000000000a1', '0190c5f0-0000-7000-8000-0000000000a2'];
const FOREVER = new AbortController().signal;

/** Some each minute, over two months. */
async function addScans(sql: Sql, userId: string, count: number): Promise<void> {
  await sql`
    INSERT INTO scans (id, user_id, creation_date, last_update, filename, duration_ms, infected, env, status)
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000' || substr(md5(n::text), 1, 16))::uuid,
      ${userId}, at, at, 'a.pdf', 3, false, 'test', 200
    FROM (SELECT n, timestamptz '2026-10-20T00:00:00Z' + n % 30000 * interval '1 minute' AS at FROM generate_series(1, ${count}::int) n) s`;
}

const countOf = async (sql: Sql, userId: string): Promise<number> =>
  (await sql<{ n: number }[]>`SELECT count(*)::int AS n FROM scans WHERE user_id = ${userId}`)[0]?.n ?? Number.NaN;

onEachStore(async (t, store) => {
  const { sql } = await open(t, await store.target(t));
  await emptyHistory(sql);
  for (const month of ['2026-10-01', '2026-11-01']) await sql`SELECT make_scan_partition(${month}::date)`;
  for (const userId of GONE) await addScans(sql, userId, 11_000);
  await addScans(sql, BOB, 7_000);
  for (const id of GONE) {
    await sql`INSERT INTO deleted_users (id) VALUES (${id})`;
    await sql`INSERT INTO scan_days (user_id, day, status, infected, scans) VALUES (${id}, '2026-11-01', 200, false, 11000)`;
  }

  await eraseScans(sql, AbortSignal.abort());
  for (const id of GONE) t.equal(await countOf(sql, id), 11_000, 'who stops begins nothing');

  await eraseScans(sql, FOREVER);
  for (const id of GONE) t.equal(await countOf(sql, id), 0);
  t.equal(await countOf(sql, BOB), 7_000, "nobody else's");
  t.strictSame([...(await sql`SELECT 1 FROM scan_days WHERE user_id = ANY(${GONE})`)], []);
});
