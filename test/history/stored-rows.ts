// What the history's tables have, as tests compare it.
import type { Sql } from '../../src/store/postgres.js';

export async function idsOf(sql: Sql): Promise<string[]> {
  return (await sql<{ id: string }[]>`SELECT id FROM scans ORDER BY id`).map(({ id }) => id);
}

/** Days whose counts aren't those of their rows. */
export async function wrongCounts(sql: Sql): Promise<unknown[]> {
  return [
    ...(await sql`
      SELECT * FROM (
        SELECT user_id, (creation_date AT TIME ZONE 'UTC')::date AS day, status, infected, count(*) AS scans
        FROM scans GROUP BY 1, 2, 3, 4
      ) AS counted FULL JOIN scan_days USING (user_id, day, status, infected)
      WHERE counted.scans IS DISTINCT FROM scan_days.scans`),
    ...(await sql`
      SELECT * FROM (
        SELECT user_id, key_id, (creation_date AT TIME ZONE 'UTC')::date AS day, count(*) FILTER (WHERE status = 200 AND NOT infected) AS clean,
          count(*) FILTER (WHERE status = 200 AND infected) AS infected, count(*) FILTER (WHERE status <> 200) AS failed
        FROM scans WHERE key_id IS NOT NULL GROUP BY 1, 2, 3
      ) AS counted FULL JOIN key_days USING (user_id, key_id, day)
      WHERE (counted.clean, counted.infected, counted.failed)
        IS DISTINCT FROM (key_days.clean::bigint, key_days.infected::bigint, key_days.failed::bigint)`),
  ];
}

export async function partitionsOf(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'scans'::regclass ORDER BY 1`;
  return rows.map(({ name }) => name);
}

/** As before the first row. */
export async function emptyHistory(sql: Sql): Promise<void> {
  for (const name of await partitionsOf(sql)) await sql.unsafe(`DROP TABLE ${name}`);
  await sql`TRUNCATE scan_days, key_days, scan_retention`;
}
