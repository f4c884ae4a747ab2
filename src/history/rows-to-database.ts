// Rows into the database, in one transaction: new rows are added and counted, and their keys get the time of their last use. A row that comes again changes nothing.
import { codeOf } from '../error-text.js';
import type { Fragment, Queries, Sql } from '../store/postgres.js';
import { IN_FAILED_TRANSACTION } from '../store/queries.js';
import { COPY_SCANS, type DayCount, RowCopy } from './row-copy.js';
import { lowestIdAt, type ScanRow, timeOfId } from './scan-row.js';

/** "No partition of relation found for row" is a check violation. */
const CHECK_VIOLATION = '23514';
/** Of a copy, where a row is there already. */
const UNIQUE_VIOLATION = '23505';
/** A node that dies before its COMMIT keeps its rows of keys and days locked so long, and with them revocations and other nodes. */
const IDLE_TIMEOUT_MS = 15_000;
/** A batch that waits for others so long is given up and tried again; meanwhile it holds nothing itself. */
const LOCK_TIMEOUT_MS = 5_000;

export interface RowListener {
  /** The database has the rows of these scans, which were pending. */
  onEnded(ids: readonly string[]): void;
  /** Something is to be told to webhooks. */
  onTold(): void;
}

/** Returns what stores a batch; it rejects with nothing of the batch stored. */
export function createRowStore(
  sql: Sql,
  listener: Partial<RowListener> = {},
): (rows: readonly ScanRow[]) => Promise<void> {
  const months = new Set<string>();
  return async (rows) => {
    const pending = rows.filter(({ wasPending }) => wasPending === true).map(({ id }) => id);
    for (const month of monthsOf(rows)) {
      if (months.has(month)) continue;
      await sql`SELECT make_scan_partition(${month}::text::date)`;
      months.add(month);
    }
    const add = (areNew: boolean): Promise<number> =>
      // Whatever the database's default is: a row that another process has just added must be seen as a conflict, not an error.
      sql.transaction('readCommitted', async (tx) => {
        // Asked for together, and sent in this order.
        const [, told] = await Promise.all([
          boundWaits(tx),
          areNew ? copyRows(tx, rows) : insertRows(tx, rows),
          touchKeys(tx, rows),
          ...(pending.length === 0 ? [] : [endPending(tx, pending)]),
        ]);
        return told;
      });
    try {
      // Nearly always they are. What is wrong with a copy the other way says, which takes twice as long.
      const told = await add(true).catch((error: unknown) => {
        const code = codeOf(error);
        if (code === IN_FAILED_TRANSACTION || code === UNIQUE_VIOLATION) return add(false);
        throw error;
      });
      if (told > 0) listener.onTold?.();
    } catch (error) {
      // Retention may have dropped a partition that a late row needs: made again by the next attempt.
      if (codeOf(error) === CHECK_VIOLATION) months.clear();
      throw error;
    }
    if (pending.length > 0) listener.onEnded?.(pending);
  };
}

async function endPending(sql: Queries, ids: readonly string[]): Promise<void> {
  await sql`DELETE FROM pending_scans WHERE id = ANY(${[...ids]}::uuid[])`;
}

/** For this transaction. */
async function boundWaits(sql: Queries): Promise<void> {
  await sql`
    SELECT set_config('idle_in_transaction_session_timeout', ${String(IDLE_TIMEOUT_MS)}, true),
      set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`;
}

/** All of them are new; otherwise the count behind them fails. Returns how much is to be told to webhooks. */
async function copyRows(sql: Queries, rows: readonly ScanRow[]): Promise<number> {
  const copy = new RowCopy(rows);
  const [, , hearing] = await Promise.all([
    sql.copyIn(COPY_SCANS, copy.bytes()),
    addCounts(sql, copy.counts),
    sql<{ user_id: string }[]>`
      SELECT DISTINCT user_id FROM webhooks
      WHERE is_enabled AND user_id = ANY(${[...new Set(copy.counts.map(({ userId }) => userId))]}::uuid[])`,
  ]);
  const users = new Set(hearing.map(({ user_id }) => user_id));
  return users.size === 0
    ? 0
    : await tell(
        sql,
        rows.filter(({ userId }) => users.has(userId)),
      );
}

async function tell(sql: Queries, rows: readonly ScanRow[]): Promise<number> {
  const [counts] = await sql<{ told: number }[]>`
    WITH added AS (
      SELECT * FROM unnest(
        ${plain(rows, ({ id }) => id)}::uuid[],
        ${plain(rows, ({ userId }) => userId)}::uuid[],
        ${plain(rows, ({ status }) => status)}::smallint[],
        ${plain(rows, ({ virusName }) => String(virusName !== null))}::boolean[]
      ) AS given (id, user_id, status, infected)
    ), told AS (${toldOf(sql)})
    SELECT count(*)::integer AS told FROM told`;
  return counts?.told ?? 0;
}

/** Of rows `added`. */
function toldOf(sql: Queries): Fragment {
  return sql`
    INSERT INTO webhook_deliveries (webhook_id, user_id, scan_id, event)
    SELECT w.id, w.user_id, a.id, e.event
    FROM added a JOIN webhooks w ON w.user_id = a.user_id AND w.is_enabled
    CROSS JOIN LATERAL unnest(CASE WHEN a.status <> 200 THEN '{scan.failed}'::text[]
      WHEN a.infected THEN '{scan.completed,scan.infected}' ELSE '{scan.completed}' END) WITH ORDINALITY AS e (event, place)
    WHERE e.event = ANY(w.events)
    ORDER BY a.id, e.place
    RETURNING 1`;
}

/** Counted in one order everywhere: two processes that count for the same users don't deadlock. */
async function addCounts(sql: Queries, counts: readonly DayCount[]): Promise<void> {
  await sql`
    WITH given AS (
      SELECT user_id, key_id, date '1970-01-01' + day AS day, status, infected, scans
      FROM unnest(
        ${counts.map(({ userId }) => userId)}::uuid[],
        ${counts.map(({ keyId }) => keyId)}::uuid[],
        ${counts.map(({ day }) => day)}::integer[],
        ${counts.map(({ status }) => status)}::smallint[],
        ${counts.map(({ infected }) => String(infected))}::text[]::boolean[],
        ${counts.map(({ scans }) => scans)}::bigint[]
      ) AS given (user_id, key_id, day, status, infected, scans)
    ), of_keys AS (
      INSERT INTO key_days (user_id, key_id, day, clean, infected, failed)
      SELECT user_id, key_id, day, COALESCE(sum(scans) FILTER (WHERE status = 200 AND NOT infected), 0),
        COALESCE(sum(scans) FILTER (WHERE status = 200 AND infected), 0), COALESCE(sum(scans) FILTER (WHERE status <> 200), 0)
      FROM given WHERE key_id IS NOT NULL GROUP BY user_id, key_id, day ORDER BY user_id, key_id, day
      ON CONFLICT (user_id, key_id, day) DO UPDATE SET clean = key_days.clean + excluded.clean,
        infected = key_days.infected + excluded.infected, failed = key_days.failed + excluded.failed
    )
    INSERT INTO scan_days (user_id, day, status, infected, scans)
    SELECT user_id, day, status, infected, sum(scans)
    FROM given GROUP BY user_id, day, status, infected ORDER BY user_id, day, status, infected
    ON CONFLICT (user_id, day, status, infected) DO UPDATE SET scans = scan_days.scans + excluded.scans`;
}

/**
 * A row that is there already is left out. Returns how much is to be told to webhooks: of a row that was there already, nothing. Counted in the same
 * order as above.
 */
async function insertRows(sql: Queries, rows: readonly ScanRow[]): Promise<number> {
  const [counts] = await sql<{ told: number }[]>`
    WITH added AS (
      INSERT INTO scans
        (id, user_id, creation_date, last_update, filename, duration_ms, infected, virus_name, env, status, error, engine, size_bytes, sha256,
          notices, key_id, metadata, url, signatures, protocol, detected_type)
      SELECT id, user_id, scan_time(id), timestamptz '1970-01-01 00:00:00+00' + last_update_ms * interval '1 millisecond',
        filename, duration_ms, virus_name IS NOT NULL, virus_name, env, status, error, engine,
        size_bytes, decode(sha256, 'hex'), string_to_array(notices, ' '), key_id, metadata, url, signatures, protocol, detected_type
      FROM unnest(
        ${plain(rows, ({ id }) => id)}::uuid[],
        ${plain(rows, ({ userId }) => userId)}::uuid[],
        ${plain(rows, ({ lastUpdateMs }) => lastUpdateMs)}::bigint[],
        ${texts(rows, ({ filename }) => filename)}::text[],
        ${plain(rows, ({ durationMs }) => durationMs)}::integer[],
        ${texts(rows, ({ virusName }) => virusName)}::text[],
        ${texts(rows, ({ env }) => env)}::text[],
        ${plain(rows, ({ status }) => status)}::smallint[],
        ${texts(rows, ({ error }) => error)}::text[],
        ${texts(rows, ({ engine }) => engine)}::text[],
        ${plain(rows, ({ sizeBytes }) => sizeBytes)}::integer[],
        ${plain(rows, ({ sha256 }) => sha256)}::text[],
        ${texts(rows, ({ notices }) => notices.join(' '))}::text[],
        ${plain(rows, ({ keyId }) => keyId)}::uuid[],
        ${texts(rows, ({ metadata }) => metadata)}::text[],
        ${texts(rows, ({ url }) => url)}::text[],
        ${texts(rows, ({ signatures }) => signatures)}::text[],
        ${plain(rows, ({ protocol }) => protocol)}::text[],
        ${texts(rows, ({ detectedType }) => detectedType)}::text[]
      ) AS given (id, user_id, last_update_ms, filename, duration_ms, virus_name, env, status, error, engine, size_bytes,
        sha256, notices, key_id, metadata, url, signatures, protocol, detected_type)
      ON CONFLICT (user_id, id, creation_date) DO NOTHING
      RETURNING id, user_id, key_id, creation_date, status, infected
    ), of_keys AS (
      INSERT INTO key_days (user_id, key_id, day, clean, infected, failed)
      SELECT user_id, key_id, (creation_date AT TIME ZONE 'UTC')::date AS day, count(*) FILTER (WHERE status = 200 AND NOT infected),
        count(*) FILTER (WHERE status = 200 AND infected), count(*) FILTER (WHERE status <> 200)
      FROM added WHERE key_id IS NOT NULL GROUP BY user_id, key_id, day ORDER BY user_id, key_id, day
      ON CONFLICT (user_id, key_id, day) DO UPDATE SET clean = key_days.clean + excluded.clean,
        infected = key_days.infected + excluded.infected, failed = key_days.failed + excluded.failed
    ), counted AS (
      INSERT INTO scan_days (user_id, day, status, infected, scans)
      SELECT user_id, (creation_date AT TIME ZONE 'UTC')::date AS day, status, infected, count(*)
      FROM added GROUP BY user_id, day, status, infected ORDER BY user_id, day, status, infected
      ON CONFLICT (user_id, day, status, infected) DO UPDATE SET scans = scan_days.scans + excluded.scans
    ), told AS (${toldOf(sql)})
    SELECT count(*)::integer AS told FROM told`;
  return counts?.told ?? 0;
}

/** An array as Postgres reads it, of values without a quote, a comma or a brace. The driver would escape and quote each of them. */
function plain(rows: readonly ScanRow[], value: (row: ScanRow) => string | number | null): string {
  return `{${rows.map(value).map(String).join(',')}}`;
}

/** The same of any texts. */
function texts(rows: readonly ScanRow[], value: (row: ScanRow) => string | null): string {
  return plain(rows, (row) => {
    const text = value(row);
    if (text === null) return null;
    return SPECIAL.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : `"${text}"`;
  });
}

/** What has a meaning within the quotes of an array's element. */
const SPECIAL = /["\\]/;

/**
 * Later than what is there, or nothing; never a key that is gone. A list shows seconds, so a key is written once in each however
 * often it is used. Rows are locked in one order, so that nodes don't wait for each other in a circle.
 */
async function touchKeys(sql: Queries, rows: readonly ScanRow[]): Promise<void> {
  const lastMs = new Map<string, number>();
  for (const { keyId, status, lastUpdateMs } of rows) {
    if (keyId === null || status !== 200) continue;
    lastMs.set(keyId, Math.max(lastUpdateMs, lastMs.get(keyId) ?? 0));
  }
  if (lastMs.size === 0) return;
  await sql`
    WITH used AS (
      SELECT id, to_timestamp(last_ms / 1000.0) AS at
      FROM unnest(${[...lastMs.keys()]}::uuid[], ${[...lastMs.values()]}::double precision[]) AS given (id, last_ms)
    ), later AS (
      SELECT id, at FROM api_keys k JOIN used USING (id)
      WHERE k.last_use IS NULL OR date_trunc('second', k.last_use) < date_trunc('second', at)
      ORDER BY id FOR NO KEY UPDATE OF k
    )
    UPDATE api_keys k SET last_use = GREATEST(k.last_use, at) FROM later WHERE k.id = later.id`;
}

/** The first days of the UTC months in which the rows were created. */
function monthsOf(rows: readonly ScanRow[]): Set<string> {
  const months = new Set<string>();
  let from = '';
  let until = '';
  for (const { id } of rows) {
    // Of that of the row before: ids are in the order of time.
    if (id >= from && id < until) continue;
    const created = new Date(timeOfId(id));
    const fromMs = Date.UTC(created.getUTCFullYear(), created.getUTCMonth());
    from = lowestIdAt(fromMs);
    until = lowestIdAt(Date.UTC(created.getUTCFullYear(), created.getUTCMonth() + 1));
    months.add(new Date(fromMs).toISOString().slice(0, 10));
  }
  return months;
}
