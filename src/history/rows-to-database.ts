// Rows into the database, in one transaction: new rows are added and counted, and their keys get the time of their last use. A row that comes again changes nothing.
// They go as the database takes them fastest: `COPY scans FROM STDIN (FORMAT binary)` (PostgreSQL 18, COPY, "Binary Format").
import { EventEmitter } from 'node:events';
import { codeOf } from '../error-text.js';
import type { Queries, Sql } from '../store/postgres.js';
import { IN_FAILED_TRANSACTION } from '../store/queries.js';
import { DAY_MS } from '../wire-text.js';
import { lowestIdAt, type ScanRow, timeOfId } from './scan-row.js';

/** In the order in which `#add` writes them. */
const COLUMNS = [
  ...['id', 'sha256', 'user_id', 'key_id'],
  ...['creation_date', 'last_update', 'duration_ms', 'infected', 'status', 'size_bytes', 'filename', 'detected_type'],
  ...['notices', 'virus_name', 'env', 'error', 'engine', 'metadata', 'url', 'signatures', 'protocol'],
];

export const COPY_SCANS = `COPY scans (${COLUMNS.join(', ')}) FROM STDIN (FORMAT binary)`;

/** Signature, flags and the length of an extension that there isn't. */
const HEAD = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const NULL_LENGTH = -1;
const END_OF_ROWS = -1;
const FIRST_BYTES_EACH = 512;
/** What a row has at most beside its texts. */
const FIXED_BYTES = 512;
/** In UTF-8, of a text's character; those outside of the first plane are two, with four bytes together. */
const CHARACTER_BYTES_MAX = 3;
const UUID_BYTES = 16;
/** Without its key, with both lengths. */
const OWNER_BYTES = UUID_BYTES + 8;
const DIGEST_BYTES = 32;
const DIGEST_DIGITS = 64;
/** 2000-01-01, from which Postgres counts microseconds. */
const EPOCH_MS = 946_684_800_000;
const TWO_16 = 0x1_0000;
const TWO_32 = 0x1_0000_0000;
/** The type `text`, as an array says it of its elements. */
const TEXT_OID = 25;
const DASH = 0x2d;

/** Of a hexadecimal digit. */
const VALUES = new Uint8Array(128);
for (let value = 0; value < 16; value += 1) VALUES[value.toString(16).charCodeAt(0)] = value;

/** Two of them, with dashes. */
const DIGITS = Buffer.alloc(256);
const NONE: readonly (string | null)[] = [];

/**
 * Rows of one COPY. Ids and digest come as bytes by one call, and are spread from there: a look at each character of a text takes several times as long.
 * Whose a row is, and its last columns, are copied from the row before where they are the same, as they nearly always are.
 */
export class RowCopy {
  #bytes: Buffer;
  #view: DataView;
  #at = HEAD.length;
  #last: ScanRow | null = null;
  /** Where its owner begins, and its last columns, which end it. */
  #ownerAt = 0;
  #textsAt = 0;

  constructor(rows: readonly ScanRow[]) {
    this.#bytes = Buffer.allocUnsafeSlow(HEAD.length + FIRST_BYTES_EACH * (rows.length + 1));
    this.#view = new DataView(this.#bytes.buffer);
    HEAD.copy(this.#bytes);
    for (const row of rows) this.#add(row);
  }

  bytes(): Uint8Array {
    if (this.#bytes.length - this.#at < 2) this.#grow(2);
    this.#view.setInt16(this.#at, END_OF_ROWS);
    return this.#bytes.subarray(0, this.#at + 2);
  }

  #add(row: ScanRow): void {
    const last = this.#last;
    const { userId, keyId, filename, detectedType, notices } = row;
    const { virusName, env, error, engine, metadata, url, signatures, protocol } = row;
    const texts = isSaidAgain(row, last) ? NONE : [virusName, env, error, engine, metadata, url, signatures, protocol];
    const start = this.#at;
    const idAt = start + 6;
    const sameBytes = texts === NONE ? start - this.#textsAt : 0;
    let characters = filename.length + (detectedType?.length ?? 0);
    for (const text of texts) characters += text?.length ?? 0;
    for (const notice of notices) characters += notice.length;
    const bytesMost = FIXED_BYTES + CHARACTER_BYTES_MAX * characters + sameBytes;
    if (this.#bytes.length - start < bytesMost) this.#grow(bytesMost);
    this.#view.setInt16(start, COLUMNS.length);
    this.#at += 2;
    this.#addDigits(row.id, row.sha256);
    const ownerAt = this.#at;
    if (last?.userId === userId && last.keyId === keyId)
      this.#repeat(this.#ownerAt, keyId === null ? OWNER_BYTES : OWNER_BYTES + UUID_BYTES);
    else this.#addDigits(userId, keyId);
    // RFC 9562 section 5.7: an id begins with the time at which it was made.
    this.#addNumbers(row, this.#view.getUint32(idAt) * TWO_16 + this.#view.getUint16(idAt + 4));
    this.#encode(filename);
    this.#encode(detectedType);
    const textsAt = this.#at;
    if (texts === NONE) this.#repeat(this.#textsAt, sameBytes);
    else this.#addNotices(notices);
    for (const text of texts) this.#encode(text);
    this.#last = row;
    this.#ownerAt = ownerAt;
    this.#textsAt = textsAt;
  }

  /** Of the row before. */
  #repeat(from: number, bytes: number): void {
    this.#bytes.copyWithin(this.#at, from, from + bytes);
    this.#at += bytes;
  }

  /** An id with a digest or another id: two digits are a byte, and dashes are none. */
  #addDigits(one: string, other: string | null): void {
    DIGITS.write(other === null ? one : one + other, 'latin1');
    const bytes = this.#bytes;
    let at = this.#at;
    let from = 0;
    for (const digits of [one, other]) {
      const length = digits === null ? NULL_LENGTH : digits.length === DIGEST_DIGITS ? DIGEST_BYTES : UUID_BYTES;
      this.#view.setInt32(at, length);
      at += 4;
      for (const end = at + length; at < end; at += 1) {
        if (DIGITS[from] === DASH) from += 1;
        bytes[at] = ((VALUES[DIGITS[from] ?? 0] ?? 0) << 4) | (VALUES[DIGITS[from + 1] ?? 0] ?? 0);
        from += 2;
      }
    }
    this.#at = at;
  }

  #addNumbers(row: ScanRow, createdMs: number): void {
    const { lastUpdateMs, durationMs, status, sizeBytes } = row;
    const view = this.#view;
    let at = this.#at;
    for (const epochMs of [createdMs, lastUpdateMs]) {
      const microseconds = (epochMs - EPOCH_MS) * 1000;
      const high = Math.floor(microseconds / TWO_32);
      view.setInt32(at, 8);
      view.setInt32(at + 4, high);
      view.setUint32(at + 8, microseconds - high * TWO_32);
      at += 12;
    }
    view.setInt32(at, 4);
    view.setInt32(at + 4, durationMs);
    view.setInt32(at + 8, 1);
    view.setInt8(at + 12, row.virusName === null ? 0 : 1);
    view.setInt32(at + 13, 2);
    view.setInt16(at + 17, status);
    at += 19;
    view.setInt32(at, sizeBytes === null ? NULL_LENGTH : 4);
    if (sizeBytes !== null) view.setInt32(at + 4, sizeBytes);
    this.#at = at + (sizeBytes === null ? 4 : 8);
  }

  /** An array of one dimension, which counts from 1; an empty one has none. */
  #addNotices(notices: readonly string[]): void {
    const start = this.#at;
    const isEmpty = notices.length === 0;
    for (const value of isEmpty ? [0, 0, TEXT_OID] : [1, 0, TEXT_OID, notices.length, 1]) {
      this.#at += 4;
      this.#view.setInt32(this.#at, value);
    }
    this.#at += 4;
    for (const notice of notices) this.#encode(notice);
    this.#view.setInt32(start, this.#at - start - 4);
  }

  #encode(text: string | null): void {
    const length = text === null ? NULL_LENGTH : this.#bytes.write(text, this.#at + 4);
    this.#view.setInt32(this.#at, length);
    this.#at += 4 + Math.max(0, length);
  }

  /** Makes room for so many bytes. */
  #grow(bytes: number): void {
    const larger = Buffer.allocUnsafeSlow(2 * this.#bytes.length + bytes);
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}

/** Its last columns are those of the row before. */
function isSaidAgain(row: ScanRow, last: ScanRow | null): boolean {
  return (
    row.notices.length === 0 &&
    last?.notices.length === 0 &&
    row.virusName === last.virusName &&
    row.env === last.env &&
    row.error === last.error &&
    row.engine === last.engine &&
    row.metadata === last.metadata &&
    row.url === last.url &&
    row.signatures === last.signatures &&
    row.protocol === last.protocol
  );
}

/** "No partition of relation found for row" is a check violation. */
const CHECK_VIOLATION = '23514';
/** Of a copy, where a row is there already. */
const UNIQUE_VIOLATION = '23505';
/** A node that dies before its COMMIT keeps its rows of keys and days locked so long, and with them revocations and other nodes. */
const IDLE_TIMEOUT_MS = 15_000;
/** A batch that waits for others so long is given up and tried again; meanwhile it holds nothing itself. */
const LOCK_TIMEOUT_MS = 5_000;

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
        if (pending.length > 0) await tx`DELETE FROM pending_scans WHERE id = ANY(${pending}::uuid[])`;
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
  /** No id of the day is below it, and none reaches the other. */
  readonly from: string;
  readonly until: string;
  readonly status: number;
  readonly infected: boolean;
  scans: number;
}

/** Rows that follow each other are of one key and day, as a rule. */
function countsOf(rows: readonly ScanRow[]): DayCount[] {
  const counts: DayCount[] = [];
  for (const { id, userId, keyId, status, virusName } of rows) {
    const infected = virusName !== null;
    let known: DayCount | undefined;
    for (let at = counts.length - 1; at >= 0 && known === undefined; at -= 1) {
      const one = counts[at];
      const isSame = one?.userId === userId && one.keyId === keyId && one.from <= id && id < one.until;
      if (isSame && one.status === status && one.infected === infected) known = one;
    }
    if (known === undefined) {
      const day = Math.floor(timeOfId(id) / DAY_MS);
      const [from, until] = [lowestIdAt(day * DAY_MS), lowestIdAt((day + 1) * DAY_MS)];
      counts.push({ userId, keyId, day, from, until, status, infected, scans: 1 });
    } else known.scans += 1;
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
