// Rows into the database, in one transaction: new rows are added and counted, and their keys get the time of their last use. A row that comes again changes nothing.
import { EventEmitter } from 'node:events';
import { codeOf } from '../error-text.js';
import type { Queries, Sql } from '../store/postgres.js';
import { IN_FAILED_TRANSACTION } from '../store/queries.js';
import { COPY_SCANS, RowCopy } from './row-copy.js';
import { lowestIdAt, type ScanRow, timeOfId } from './scan-row.js';

/** "No partition of relation found for row" is a check violation. */
const CHECK_VIOLATION = '23514';
/** Of a copy, where a row is there already. */
const UNIQUE_VIOLATION = '23505';
/** A node that dies before its COMMIT keeps its rows of keys and days locked so long, and with them revocations and other nodes. */
const IDLE_TIMEOUT_MS = 15_000;
/** A batch that waits for others so long is given up and tried again; meanwhile it holds nothing itself. */
const LOCK_TIMEOUT_MS = 5_000;
const DAY_MS = 86_400_000;

/** `ended`: the database has the rows of these scans, which were pending. `told`: something is to be told to webhooks. */
export type RowEvents = EventEmitter<{ ended: [ids: readonly string[]]; told: [] }>;

/** Returns what stores a batch; it rejects with nothing of the batch stored. */
export function createRowStore(
  sql: Sql,
  events: RowEvents = new EventEmitter(),
): (rows: readonly ScanRow[]) => Promise<void> {
  const months = new Set<string>();
  return async (rows) => {
    const pending: string[] = [];
    for (const { id, wasPending } of rows) if (wasPending === true) pending.push(id);
    for (const month of monthsOf(rows)) {
      if (months.has(month)) continue;
      await sql`SELECT make_scan_partition(${month}::text::date)`;
      months.add(month);
    }
    const add = (areNew: boolean): Promise<number> =>
      // Whatever the database's default is: a row that another process has just added must be seen as a conflict, not an error.
      sql.transaction('readCommitted', async (tx) => {
        const [, told] = await Promise.all([boundWaits(tx), areNew ? copyRows(tx, rows) : insertRows(tx, rows)]);
        await touchKeys(tx, rows);
        if (pending.length > 0) await endPending(tx, pending);
        return told;
      });
    try {
      // Nearly always they are. What is wrong with a copy the other way says, which takes twice as long.
      const told = await add(true).catch((error: unknown) => {
        const code = codeOf(error);
        if (code === IN_FAILED_TRANSACTION || code === UNIQUE_VIOLATION) return add(false);
        throw error;
      });
      if (told > 0) events.emit('told');
    } catch (error) {
      // Retention may have dropped a partition that a late row needs: made again by the next attempt.
      if (codeOf(error) === CHECK_VIOLATION) months.clear();
      throw error;
    }
    if (pending.length > 0) events.emit('ended', pending);
  };
}

async function endPending(sql: Queries, ids: readonly string[]): Promise<void> {
  await sql`DELETE FROM pending_scans WHERE id = ANY(${[...ids]}::uuid[])`;
}

async function boundWaits(sql: Queries): Promise<void> {
  await sql`
    SELECT set_config('idle_in_transaction_session_timeout', ${String(IDLE_TIMEOUT_MS)}, true),
      set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`;
}

/** All of them are new; otherwise the count behind them fails. Returns how much is to be told to webhooks, as the next one. */
async function copyRows(sql: Queries, rows: readonly ScanRow[]): Promise<number> {
  const [, told] = await Promise.all([sql.copyIn(COPY_SCANS, new RowCopy(rows).bytes()), countRows(sql, rows)]);
  return told;
}

/** Those that are there already are left out. */
async function insertRows(sql: Queries, rows: readonly ScanRow[]): Promise<number> {
  const added = await sql<{ id: string }[]>`
    INSERT INTO scans
      (id, user_id, creation_date, last_update, filename, duration_ms, infected, virus_name, env, status, error, engine, size_bytes, sha256,
        notices, key_id, metadata, url, signatures, protocol, detected_type)
    SELECT id, "userId", scan_time(id), timestamptz '1970-01-01 00:00:00+00' + "lastUpdateMs" * interval '1 millisecond',
      filename, "durationMs", "virusName" IS NOT NULL, "virusName", env, status, error, engine, "sizeBytes", decode(sha256, 'hex'),
      notices, "keyId", metadata, url, signatures, protocol, "detectedType"
    FROM jsonb_to_recordset(${JSON.stringify(rows, wellFormed)}::text::jsonb) AS given
      (id uuid, "userId" uuid, "lastUpdateMs" bigint, filename text, "durationMs" integer, "virusName" text, env text, status smallint,
        error text, engine text, "sizeBytes" integer, sha256 text, notices text[], "keyId" uuid, metadata text, url text, signatures text,
        protocol text, "detectedType" text)
    ON CONFLICT (user_id, id, creation_date) DO NOTHING
    RETURNING id`;
  const byId = new Map(rows.map((row) => [row.id, row]));
  return await countRows(
    sql,
    added.flatMap(({ id }) => byId.get(id) ?? []),
  );
}

/** Postgres takes no half of a surrogate pair. */
function wellFormed(_name: string, value: unknown): unknown {
  return typeof value === 'string' ? Buffer.from(value).toString() : value;
}

/** Counts rows that are new, and writes down what is to be told of them. */
async function countRows(sql: Queries, rows: readonly ScanRow[]): Promise<number> {
  const counts = countsOf(rows);
  const [, hearing] = await Promise.all([
    addCounts(sql, counts),
    sql<{ user_id: string }[]>`
      SELECT DISTINCT user_id FROM webhooks
      WHERE is_enabled AND user_id = ANY(${[...new Set(counts.map(({ userId }) => userId))]}::uuid[])`,
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
  const told = await sql`
    INSERT INTO webhook_deliveries (webhook_id, user_id, scan_id, event)
    SELECT w.id, w.user_id, a.id, e.event
    FROM unnest(
      ${rows.map(({ id }) => id)}::uuid[],
      ${rows.map(({ userId }) => userId)}::uuid[],
      ${rows.map(({ status }) => status)}::smallint[],
      ${rows.map(({ virusName }) => String(virusName !== null))}::text[]::boolean[]
    ) AS a (id, user_id, status, infected)
    JOIN webhooks w ON w.user_id = a.user_id AND w.is_enabled
    CROSS JOIN LATERAL unnest(CASE WHEN a.status <> 200 THEN '{scan.failed}'::text[]
      WHEN a.infected THEN '{scan.completed,scan.infected}' ELSE '{scan.completed}' END) WITH ORDINALITY AS e (event, place)
    WHERE e.event = ANY(w.events)
    ORDER BY a.id, e.place`;
  return told.count;
}

/** How many rows of an account, a key and a UTC day have which status and verdict. */
interface DayCount {
  readonly userId: string;
  /** Null: without one. */
  readonly keyId: string | null;
  /** Days since 1970. */
  readonly day: number;
  readonly status: number;
  readonly infected: boolean;
  scans: number;
}

/** Rows that follow each other are of one key and day, as a rule. */
function countsOf(rows: readonly ScanRow[]): DayCount[] {
  const counts: DayCount[] = [];
  for (const { id, userId, keyId, status, virusName } of rows) {
    const day = Math.floor(timeOfId(id) / DAY_MS);
    const infected = virusName !== null;
    let known: DayCount | undefined;
    for (let at = counts.length - 1; at >= 0 && known === undefined; at -= 1) {
      const one = counts[at];
      const isSame = one?.userId === userId && one.keyId === keyId && one.day === day && one.status === status;
      if (isSame && one.infected === infected) known = one;
    }
    if (known === undefined) counts.push({ userId, keyId, day, status, infected, scans: 1 });
    else known.scans += 1;
  }
  return counts;
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
