// What the history answers: pages of rows by index, counts from the roll-ups. Every query begins with whose rows they are.
import type { z } from 'zod';
import { codeOf } from '../error-text.js';
import type { Fragment, Queries, Sql } from '../store/postgres.js';
import { asFailure, guarded, STORE_ANSWER_MS } from '../store/store-error.js';
import { NoAnswer, within } from '../waiting/within.js';
import { DAY_MS, wireDay } from '../wire-text.js';
import { outcomeIs } from './outcomes.js';
import { type exportQuery, type pageQuery, SEARCH_ROWS, type SortField } from './query.js';
import { lowestIdAt, type ScanRow } from './scan-row.js';

export type Filters = z.output<typeof exportQuery> & {
  /** Of the creation date: the first instant, and the one behind the last. */
  readonly fromMs?: number | undefined;
  readonly beforeMs?: number | undefined;
};

export type PageRequest = z.output<typeof pageQuery>;

interface FoundScans {
  readonly rows: readonly ScanRow[];
  readonly total: number;
}

/**
 * Fewer rows are gathered by their filter and sorted. More are met soon along the order's index, unless the order keeps them for
 * its end: then all of it is walked.
 */
const GATHER_ROWS = 20_000;
/** So many rows are fetched for nothing before the index alone is asked where a page begins. */
const FETCHED_ROWS = 200;
/** Of the years that days may have: the next instant would be written with a sign. */
const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');
const QUERY_CANCELED = '57014';

/** A query was ended because it took too long. */
export class TooSlow extends Error {}

/** A page of the user's rows and how many there are in all. Throws TooSlow, and Failure('unavailable') when the store is down. */
export async function findScans(sql: Sql, userId: string, request: PageRequest): Promise<FoundScans> {
  if (!isSearch(request) && request.sort.field === 'creationDate')
    return await bounded(sql, (queries) => findByDate(queries, userId, request));
  const offset = request.page * request.size;
  return await bounded(sql, async (queries) => {
    const counted = await countScans(queries, userId, request);
    const total = isSearch(request) ? Math.min(counted, SEARCH_ROWS) : counted;
    if (offset >= total) return { rows: [], total };
    const where = sql`user_id = ${userId} ${filtersOf(sql, request)}`;
    const selection = { userId, request, where, offset, limit: Math.min(request.size, total - offset) };
    const gathers = hasFilter(request) && counted < GATHER_ROWS;
    const rows = gathers
      ? await selectRows(queries, { ...selection, gathers })
      : await selectParts(queries, selection, partsOf(sql, request));
    return { rows, total };
  });
}

/** Of an order: rows that are all before the others, and what they have among each other the order of. */
interface StatsPart {
  /** Of columns that the roll-ups have too. */
  readonly condition: Fragment;
  readonly field: SortField;
}

/** Nearly all rows have the same value where there are few: by the primary key they are in their order, and indexes have only the others. */
function partsOf(sql: Queries, { sort: { field, direction } }: PageRequest): readonly StatsPart[] {
  const part = (condition: Fragment, field: SortField = 'creationDate'): StatsPart => ({ condition, field });
  const clean = part(sql`AND NOT infected`);
  const parts = {
    infected: [clean, part(sql`AND infected`)],
    virusName: [part(sql`AND infected`, 'virusName'), clean],
    status: [part(sql`AND status = 200`), part(sql`AND status <> 200`, 'status')],
  };
  if (field !== 'infected' && field !== 'virusName' && field !== 'status') return [part(sql``, field)];
  return direction === 'asc' ? parts[field] : parts[field].reverse();
}

/** One part after the other, as many rows as are wanted; how many a part has is only asked where others are behind it. */
async function selectParts(
  sql: Queries,
  { offset, limit, ...selection }: Omit<Selection, 'gathers'>,
  parts: readonly StatsPart[],
): Promise<readonly ScanRow[]> {
  const { userId, request } = selection;
  const rows: ScanRow[] = [];
  let skipped = offset;
  for (const { condition, field } of parts) {
    const isLast = parts.at(-1)?.condition === condition;
    const count = isLast ? Number.POSITIVE_INFINITY : await countScans(sql, userId, request, condition);
    const wanted = Math.min(limit - rows.length, count - skipped);
    if (wanted > 0) {
      const where = sql`${selection.where} ${condition}`;
      const sort = { ...request.sort, field };
      const place = { offset: skipped, limit: wanted, gathers: false };
      rows.push(...(await selectRows(sql, { userId, request: { ...request, sort }, where, ...place })));
    }
    skipped = Math.max(0, skipped - count);
  }
  return rows;
}

/** By date the roll-ups tell on which days a page lies: however deep it is, only rows of its first day are skipped. */
async function findByDate(sql: Queries, userId: string, request: PageRequest): Promise<FoundScans> {
  const offset = request.page * request.size;
  const way = wayOf(sql, request);
  const [found] = await sql<{ total: number; before: number | null; from: string | null; to: string | null }[]>`
    WITH days AS (
      SELECT day, sum(scans) AS scans FROM scan_days WHERE user_id = ${userId} ${countFiltersOf(sql, request)} GROUP BY day
    ), places AS (
      SELECT day, sum(scans) OVER () AS total, sum(scans) OVER (ORDER BY day ${way}) - scans AS before,
        sum(scans) OVER (ORDER BY day ${way}) AS until
      FROM days
    )
    SELECT total::float8, (min(before) FILTER (WHERE is_met))::float8 AS before,
      (min(day) FILTER (WHERE is_met))::text AS from, (max(day) FILTER (WHERE is_met))::text AS to
    FROM (SELECT *, until > ${offset}::bigint AND before < ${offset + request.size}::bigint AS is_met FROM places) AS met
    GROUP BY total`;
  if (found === undefined) return { rows: [], total: 0 };
  const { total, before, from, to } = found;
  if (before === null || from === null || to === null) return { rows: [], total };
  const range = { startDate: Date.parse(`${from}T00:00:00Z`), endDate: Date.parse(`${to}T00:00:00Z`) };
  const narrowed = { ...request, ...range };
  const where = sql`user_id = ${userId} ${filtersOf(sql, narrowed)}`;
  const place = { offset: offset - before, limit: Math.min(request.size, total - offset) };
  return { rows: await selectRows(sql, { userId, request: narrowed, where, ...place, gathers: false }), total };
}

interface Selection {
  readonly userId: string;
  readonly request: PageRequest;
  readonly where: Fragment;
  readonly offset: number;
  readonly limit: number;
  /** Whether so few rows pass the filters that they are better sorted than looked for along the order. */
  readonly gathers: boolean;
}

async function selectRows(sql: Queries, selection: Selection): Promise<readonly ScanRow[]> {
  const { userId, request, where, offset, limit, gathers } = selection;
  // What a filter looks at is in every index beside the order, but only a scan of the index alone reads it there.
  const isFetched = request.sort.field === 'creationDate' || !hasFilter(request);
  const columns = rowColumns(sql);
  const way = wayOf(sql, request);
  const order = sql`${orderedBy(sql, request)} ${way}, id ${way}`;
  if (gathers) {
    // Only what the order needs is gathered and sorted: that takes a third of the time that whole rows take.
    return await sql<ScanRow[]>`
      WITH found AS MATERIALIZED (SELECT ${orderedBy(sql, request)} AS place, id, creation_date FROM scans WHERE ${where}),
        page AS (SELECT id AS key, creation_date AS made FROM found ORDER BY place ${way}, id ${way} LIMIT ${limit} OFFSET ${offset})
      SELECT ${columns} FROM page JOIN scans ON user_id = ${userId} AND id = key AND creation_date = made
      ORDER BY ${order}`;
  }
  if (offset <= FETCHED_ROWS && isFetched) {
    return await sql<ScanRow[]>`
      SELECT ${columns} FROM scans WHERE ${where} ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`;
  }
  // What is skipped is read in the index alone; the rows are fetched for one page, each from its partition.
  return await sql<ScanRow[]>`
    SELECT ${columns}
    FROM (SELECT id AS key FROM scans WHERE ${where} ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}) AS page
    JOIN scans ON user_id = ${userId} AND id = key AND creation_date = scan_time(key) ${windowOf(sql, request)}
    ORDER BY ${order}`;
}

export async function findScan(sql: Sql, userId: string, id: string): Promise<ScanRow | null> {
  const [row] = await guarded(
    sql<ScanRow[]>`
      SELECT ${rowColumns(sql)} FROM scans
      WHERE user_id = ${userId} AND id = ${id}::uuid AND creation_date = scan_time(${id}::uuid)`,
  );
  return row ?? null;
}

/**
 * Rows for an export, the newest first, from the one behind `after` on. A page at a time, so that a client that reads slowly keeps
 * neither a connection nor rows. Throws TooSlow.
 */
export async function nextScans(
  sql: Sql,
  userId: string,
  request: Filters & { readonly after: string | null; readonly limit: number },
): Promise<readonly ScanRow[]> {
  const { after, limit } = request;
  return await bounded(
    sql,
    async (queries) =>
      await queries<ScanRow[]>`
      SELECT ${rowColumns(sql)} FROM scans
      WHERE user_id = ${userId} ${filtersOf(sql, request)}
        ${after === null ? sql`` : sql`AND id < ${after}::uuid AND creation_date <= scan_time(${after}::uuid)`}
      ORDER BY id DESC LIMIT ${limit}`,
  );
}

/** Of a row, as it was on its way here. */
function rowColumns(sql: Queries): Fragment {
  return sql`
    id, user_id AS "userId", key_id AS "keyId", filename, duration_ms AS "durationMs", virus_name AS "virusName", status, error, engine, signatures,
    size_bytes AS "sizeBytes", encode(sha256, 'hex') AS sha256, detected_type AS "detectedType", notices, metadata, url, protocol, env,
    (1000 * extract(epoch FROM last_update))::float8 AS "lastUpdateMs"`;
}

/** The names of the keys that the user's rows were asked for with, by their ids; also of those that have ended. */
export async function namesOfKeys(
  sql: Sql,
  userId: string,
  scans: readonly Pick<ScanRow, 'keyId'>[],
): Promise<ReadonlyMap<string, string>> {
  const keyIds = scans.flatMap(({ keyId }) => keyId ?? []);
  if (keyIds.length === 0) return new Map();
  const rows = await guarded(
    sql<{ id: string; name: string }[]>`
      SELECT id, name FROM api_keys WHERE user_id = ${userId} AND id = ANY(${[...new Set(keyIds)]}::uuid[])`,
  );
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** From the roll-ups, except for a search, which is counted until it is certain that there are many. */
async function countScans(sql: Queries, userId: string, filters: Filters, condition = sql``): Promise<number> {
  const [row] = !isSearch(filters)
    ? await sql<{ total: number }[]>`
          SELECT coalesce(sum(scans), 0)::float8 AS total FROM scan_days
          WHERE user_id = ${userId} ${countFiltersOf(sql, filters)} ${condition}`
    : await sql<{ total: number }[]>`
          SELECT count(*)::integer AS total
          FROM (SELECT FROM scans WHERE user_id = ${userId} ${filtersOf(sql, filters)} ${condition} LIMIT ${GATHER_ROWS}) AS found`;
  return row?.total ?? 0;
}

/** By what the roll-ups don't know. */
function isSearch({ q, sha256, virusName, key, protocol }: Filters): boolean {
  return [q, sha256, virusName, key, protocol].some((filter) => filter !== undefined);
}

function hasFilter(filters: Filters): boolean {
  const { infected, verdict, status, outcome, startDate, endDate } = filters;
  return (
    isSearch(filters) || [infected, verdict, status, outcome, startDate, endDate].some((filter) => filter !== undefined)
  );
}

/** The filters of the verdict, on columns that rows and roll-ups share. What indexes are of is said in their words. */
function verdictOf(sql: Queries, { infected, verdict, status, outcome }: Filters): Fragment {
  const ended = (isInfected: boolean): Fragment => sql`AND ${outcomeIs(sql, isInfected ? 'infected' : 'clean')}`;
  return sql`
    ${infected === undefined ? sql`` : ended(infected)}
    ${verdict === undefined ? sql`` : verdict === 'none' ? sql`AND status <> 200` : ended(verdict === 'infected')}
    ${outcome === undefined ? sql`` : sql`AND ${outcomeIs(sql, outcome)}`}
    ${status === undefined ? sql`` : sql`AND status = ${status}`} ${status === undefined || status === 200 ? sql`` : sql`AND status <> 200`}`;
}

/** The filters that the roll-ups know, on their columns. */
function countFiltersOf(sql: Queries, filters: Filters): Fragment {
  const { startDate, endDate } = filters;
  return sql`
    ${verdictOf(sql, filters)}
    ${startDate === undefined ? sql`` : sql`AND day >= ${wireDay(startDate)}::text::date`}
    ${endDate === undefined ? sql`` : sql`AND day <= ${wireDay(endDate)}::text::date`}`;
}

function filtersOf(sql: Queries, filters: Filters): Fragment {
  const { q, sha256, virusName, key, protocol } = filters;
  const { fromMs, beforeMs } = boundsOf(filters);
  return sql`
    ${verdictOf(sql, filters)}
    ${q === undefined ? sql`` : sql`AND filename ~ ${inAnyCase(q)}`}
    ${sha256 === undefined ? sql`` : digestIs(sql, sha256)}
    ${virusName === undefined ? sql`` : sql`AND infected AND virus_name = ${virusName}`}
    ${key === undefined ? sql`` : sql`AND key_id = ${key}::uuid`}
    ${protocol === undefined ? sql`` : sql`AND protocol = ${protocol}`}
    ${fromMs === undefined ? sql`` : sql`AND id >= ${lowestIdAt(fromMs)}::uuid`}
    ${beforeMs === undefined ? sql`` : sql`AND id < ${lowestIdAt(beforeMs)}::uuid`}
    ${windowOf(sql, filters)}`;
}

/** The index has the first bytes of it. */
function digestIs(sql: Queries, hex: string): Fragment {
  return sql`
    AND substring(sha256 FROM 1 FOR 6) = substring(decode(${hex}, 'hex') FROM 1 FOR 6) AND sha256 = decode(${hex}, 'hex')`;
}

/** What the bounds of the ids say already, said to the planner: partitions that can't have such rows are left out. */
function windowOf(sql: Queries, filters: Filters): Fragment {
  const { fromMs, beforeMs } = boundsOf(filters);
  const end = beforeMs === undefined ? null : new Date(Math.min(beforeMs, LAST_INSTANT));
  return sql`
    ${fromMs === undefined ? sql`` : sql`AND creation_date >= ${new Date(fromMs)}`}
    ${end === null ? sql`` : sql`AND creation_date < ${end}`}`;
}

/** Days are what the roll-ups know; instants are for those who ask for rows alone. */
function boundsOf({ startDate, endDate, fromMs, beforeMs }: Filters): Pick<Filters, 'fromMs' | 'beforeMs'> {
  return { fromMs: fromMs ?? startDate, beforeMs: beforeMs ?? (endDate === undefined ? undefined : endDate + DAY_MS) };
}

/** Nothing of the request is ever part of the text: a field chooses one of these columns. Ids are in the order of the creation date. */
function orderedBy(sql: Queries, { sort: { field } }: PageRequest): Fragment {
  switch (field) {
    case 'creationDate':
      return sql`id`;
    case 'lastUpdate':
      return sql`last_update`;
    case 'filename':
      return sql`filename`;
    case 'scanDurationMillis':
      return sql`duration_ms`;
    case 'infected':
      return sql`infected`;
    case 'virusName':
      return sql`virus_name`;
    case 'status':
      return sql`status`;
  }
}

function wayOf(sql: Queries, { sort: { direction } }: PageRequest): Fragment {
  return direction === 'asc' ? sql`ASC` : sql`DESC`;
}

/**
 * A regular expression of Postgres that finds the text in upper and lower case, of all of Unicode: what the database itself takes for
 * the same letter depends on how it was made. Only single characters and choices between them, so no text makes it slow.
 */
function inAnyCase(text: string): string {
  return [...text]
    .map((character) => {
      const forms = new Set([character, character.toLowerCase(), character.toUpperCase()]);
      return `(?:${[...forms].map((form) => form.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&')).join('|')})`;
    })
    .join('');
}

/** Who waits for so long for a table that somebody has locked is not helped by asking for less of it. */
const LOCK_MS = STORE_ANSWER_MS - 1_000;

/**
 * An answer comes within five seconds: that the query takes too long when Postgres is at it, and that the store is down when it
 * hasn't even begun, or waits for a lock. The database ends a statement after the same time.
 */
async function bounded<T>(sql: Sql, work: (queries: Queries) => Promise<T>): Promise<T> {
  const state = { hasBegun: false, isLate: false };
  const result = sql.transaction('readOnly', async (tx) => {
    if (state.isLate) throw new TooSlow('Nobody waits any more');
    await tx`
      SELECT set_config('statement_timeout', ${String(STORE_ANSWER_MS)}, true), set_config('lock_timeout', ${String(LOCK_MS)}, true)`;
    state.hasBegun = true;
    return await work(tx);
  });
  try {
    return await within(result, STORE_ANSWER_MS);
  } catch (error) {
    state.isLate = true;
    const isSlow = codeOf(error) === QUERY_CANCELED || (error instanceof NoAnswer && state.hasBegun);
    throw isSlow ? new TooSlow('The query took too long', { cause: error }) : asFailure(error);
  }
}
