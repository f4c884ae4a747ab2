// A history of a given size for one user among others: a year of scans, made by the database itself.
import type { Sql } from '../../src/store/postgres.js';

export const USER = '0190c5f0-0000-7000-8000-00000000a11c';

const DAY_MS = 86_400_000;
const DAYS = 365;
/** For every five rows of the user one of somebody else's, of so many others. */
const OTHERS_SHARE = 0.2;
const OTHERS = 100;

/** Fills an empty database and leaves it as autovacuum would. */
export async function fill(sql: Sql, rows: number, nowMs: number): Promise<void> {
  const startMs = nowMs - DAYS * DAY_MS;
  for (const month of monthsBetween(startMs, nowMs)) await sql`SELECT make_scan_partition(${month}::text::date)`;
  // Built once at the end instead of row by row.
  const indexes = await sql<{ name: string; definition: string }[]>`
    SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition
    FROM pg_index WHERE indrelid = 'scans'::regclass AND NOT indisprimary`;
  for (const { name } of indexes) await sql.unsafe(`DROP INDEX ${name}`);
  await insert(sql, { rows, users: 1, startMs, stepMs: (nowMs - startMs) / rows });
  const others = Math.max(1, Math.floor(rows * OTHERS_SHARE));
  await insert(sql, { rows: others, users: OTHERS, startMs, stepMs: (nowMs - startMs) / others });
  await sql`SET maintenance_work_mem = '512MB'`;
  // As it is given, the definition is of the parent alone.
  for (const { definition } of indexes) await sql.unsafe(definition.replace(' ON ONLY ', ' ON '));
  await sql`
    INSERT INTO scan_days (user_id, day, status, infected, scans)
    SELECT user_id, (creation_date AT TIME ZONE 'UTC')::date, status, infected, count(*) FROM scans GROUP BY 1, 2, 3, 4`;
  await sql`VACUUM (ANALYZE) scans`;
  await sql`VACUUM (ANALYZE) scan_days`;
}

interface Series {
  readonly rows: number;
  /** 1: the user; more: that many others in turns. */
  readonly users: number;
  readonly startMs: number;
  readonly stepMs: number;
}

/** One row in a hundred is infected, three fail; a million different names with four beginnings. */
async function insert(sql: Sql, { rows, users, startMs, stepMs }: Series): Promise<void> {
  await sql`
    INSERT INTO scans
      (id, user_id, creation_date, last_update, filename, duration_ms, infected, virus_name, env, status, error, sha256)
    SELECT id, CASE WHEN ${users}::int = 1 THEN ${USER}::uuid ELSE md5('user' || n % ${users}::int)::uuid END, scan_time(id),
      scan_time(id) + n * 7919 % 500 * interval '1 millisecond',
      (ARRAY['invoice', 'report', 'photo', 'backup'])[1 + n * 31 % 4] || '-' || n * 7919 % 1000003 || '.pdf',
      n * 7919 % 500, n % 100 = 7, CASE WHEN n % 100 = 7 THEN 'Virus.Number.' || n * 13 % 50 END, 'PRODUCTION',
      CASE WHEN n % 100 IN (1, 2) THEN 422 WHEN n % 100 = 3 THEN 400 ELSE 200 END,
      CASE WHEN n % 100 IN (1, 2, 3) THEN 'Scan incomplete: a limit of the engine' END,
      CASE WHEN n % 1000 = 9 THEN decode(repeat('ab', 32), 'hex') ELSE sha256(id::text::bytea) END
    FROM (
      SELECT n, (
        lpad(to_hex((${startMs}::float8 + n * ${stepMs}::float8)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15)
      )::uuid AS id
      FROM generate_series(0, ${rows}::bigint - 1) AS n, md5(n || 'of' || ${users}::int) AS hash
    ) AS made`;
}

function monthsBetween(startMs: number, endMs: number): string[] {
  const months: string[] = [];
  const at = new Date(startMs);
  for (let ms = Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1); ms <= endMs; ) {
    const month = new Date(ms);
    months.push(month.toISOString().slice(0, 10));
    ms = Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 1);
  }
  return months;
}
