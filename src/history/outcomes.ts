// What scans have come to: by day, from the roll-ups, of one account for its owner and of all for operators; and the scans of all accounts that
// operators look at: those without a verdict, by reason, and the slowest ones, both by indexes of their own.
import { z } from 'zod';
import type { Fragment, Queries, Sql } from '../store/postgres.js';
import { STORE_ANSWER_MS } from '../store/store-error.js';
import { DAY_MS, WireTime, wireDay, wireTime } from '../wire-text.js';

const count = z.int().min(0);
export const OutcomeDays = z.array(
  z
    .object({
      day: z.iso.date(),
      clean: count,
      infected: count,
      noVerdict: count.describe('422: not looked at as a whole'),
      refused: count.describe('other 4xx'),
      left: count.describe('499: the client went away'),
      failed: count.describe('5xx'),
    })
    .meta({ id: 'DayCounts' }),
);
export type OutcomeDays = z.infer<typeof OutcomeDays>;

/** What a scan can have come to, as a day counts it. */
export const outcomes = ['clean', 'infected', 'noVerdict', 'refused', 'left', 'failed'] as const;
export type Outcome = (typeof outcomes)[number];

/** On columns that rows and roll-ups share. What indexes are of is said in their words. */
export function outcomeIs(sql: Queries, outcome: Outcome): Fragment {
  switch (outcome) {
    case 'clean':
      return sql`status = 200 AND NOT infected`;
    case 'infected':
      return sql`status = 200 AND infected`;
    case 'noVerdict':
      return sql`status <> 200 AND status = 422`;
    case 'refused':
      return sql`status <> 200 AND status BETWEEN 400 AND 498 AND status <> 422`;
    case 'left':
      return sql`status <> 200 AND status = 499`;
    case 'failed':
      return sql`status <> 200 AND status >= 500`;
  }
}

const DAYS = 30;

/** `userId` null: of all accounts. Of the last 30 days, today last, each day once. */
export async function outcomeDays(sql: Queries, userId: string | null, nowMs: number): Promise<OutcomeDays> {
  const first = wireDay(nowMs - (DAYS - 1) * DAY_MS);
  const last = wireDay(nowMs);
  const sum = (outcome: Outcome): Fragment =>
    sql`coalesce(sum(scans) FILTER (WHERE ${outcomeIs(sql, outcome)}), 0)::float8`;
  return await sql<OutcomeDays>`
    SELECT to_char(d, 'YYYY-MM-DD') AS day, ${sum('clean')} AS clean, ${sum('infected')} AS infected,
      ${sum('noVerdict')} AS "noVerdict", ${sum('refused')} AS refused, ${sum('left')} AS left, ${sum('failed')} AS failed
    FROM generate_series(${first}::text::date, ${last}::text::date, interval '1 day') AS d
    LEFT JOIN scan_days ON scan_days.day = d::date AND (${userId}::uuid IS NULL OR user_id = ${userId}::uuid)
    GROUP BY d ORDER BY d`;
}

interface ScanCounts {
  readonly infected: number;
  readonly clean: number;
}

export async function countVerdicts(sql: Queries, userId: string, startMs: number, endMs: number): Promise<ScanCounts> {
  const [counts] = await sql<ScanCounts[]>`
    SELECT coalesce(sum(scans) FILTER (WHERE infected), 0)::float8 AS infected,
      coalesce(sum(scans) FILTER (WHERE NOT infected), 0)::float8 AS clean
    FROM scan_days
    WHERE user_id = ${userId} AND status = 200 AND day BETWEEN ${wireDay(startMs)}::text::date AND ${wireDay(endMs)}::text::date`;
  return counts ?? { infected: 0, clean: 0 };
}

interface MonthCounts extends ScanCounts {
  /** YYYY-MM */
  readonly month: string;
}

/** Months that have scans, from that day on. */
export async function countMonths(sql: Queries, userId: string, fromMs: number): Promise<readonly MonthCounts[]> {
  return await sql<MonthCounts[]>`
    SELECT to_char(day, 'YYYY-MM') AS month,
      coalesce(sum(scans) FILTER (WHERE infected), 0)::float8 AS infected,
      coalesce(sum(scans) FILTER (WHERE NOT infected), 0)::float8 AS clean
    FROM scan_days
    WHERE user_id = ${userId} AND status = 200 AND day >= ${wireDay(fromMs)}::text::date
    GROUP BY month`;
}

const NotedScan = z.object({
  id: z.uuid(),
  userId: z.uuid(),
  email: z.string().nullable().describe('null: the account is deleted'),
  at: WireTime,
  durationMillis: z.int(),
  sizeInBytes: z.int().nullable(),
});

const NOTED_DAYS = 7;
/** More rows without a verdict are not read: the newest tell what is wrong. */
const FAILED_ROWS = 10_000;
const REASONS = 50;
const EXAMPLES = 3;
const SLOWEST = 20;

export const NotedScans = z.object({
  since: WireTime.describe(`${NOTED_DAYS} days ago. This and the next three are of the rows of all nodes and accounts`),
  errorsSince: WireTime.describe(
    `The same, or later if more than ${FAILED_ROWS} scans had no verdict: of the newest ones`,
  ),
  errors: z
    .array(
      z.object({
        status: z.int(),
        reason: z.string(),
        count: z.int(),
        lastAt: WireTime,
        examples: z.array(NotedScan).describe('The newest'),
      }),
    )
    .describe(
      'Scans without a verdict by reason: first 422 and 5xx, then what was refused; of these the most frequent first',
    ),
  slowest: z.array(NotedScan).describe('Of those that took a second or more'),
});
export type NotedScans = z.infer<typeof NotedScans>;

interface FailedScan extends z.infer<typeof NotedScan> {
  readonly status: number;
  readonly reason: string;
  readonly count: number;
  readonly oldest: Date;
  readonly isCut: boolean;
}

/** Of the last days. What takes longer than a store may is ended by the database. */
export async function notedScans(sql: Sql, nowMs: number): Promise<NotedScans> {
  const since = new Date(nowMs - NOTED_DAYS * DAY_MS);
  return await sql.transaction('readOnly', async (tx) => {
    await tx`SELECT set_config('statement_timeout', ${String(STORE_ANSWER_MS)}, true)`;
    const failed = await failedScans(tx, since);
    const slowest = await slowestScans(tx, since);
    const errorsSince = failed[0]?.isCut === true ? failed[0].oldest : since;
    return {
      ...{ since: wireTime(since), errorsSince: wireTime(errorsSince) },
      ...{ errors: byReason(failed), slowest: [...slowest] },
    };
  });
}

/**
 * The examples of each reason one after the other, the newest first. What clients did wrong comes last: they choose some of its words, and could crowd out
 * what failed here.
 */
async function failedScans(sql: Queries, since: Date): Promise<readonly FailedScan[]> {
  return await sql<FailedScan[]>`
    WITH failed AS MATERIALIZED (
      SELECT id, user_id, creation_date, duration_ms, size_bytes, status, coalesce(error, '') AS error FROM scans
      WHERE status <> 200 AND creation_date >= ${since} ORDER BY creation_date DESC LIMIT ${FAILED_ROWS}
    ), reasons AS (
      SELECT status, error, count(*)::integer AS count, max(creation_date) AS last FROM failed GROUP BY status, error
      ORDER BY status <> 422 AND status < 500, count DESC, last DESC LIMIT ${REASONS}
    ), examples AS (
      SELECT failed.*, count, last, row_number() OVER (PARTITION BY status, error ORDER BY creation_date DESC, id DESC) AS place
      FROM failed JOIN reasons USING (status, error)
    ), whole AS (SELECT min(creation_date) AS oldest, count(*) = ${FAILED_ROWS} AS is_cut FROM failed)
    SELECT ${notedColumns(sql)}, s.status, error AS reason, count, oldest, is_cut AS "isCut"
    FROM examples s CROSS JOIN whole LEFT JOIN users u ON u.id = user_id
    WHERE place <= ${EXAMPLES} ORDER BY s.status <> 422 AND s.status < 500, count DESC, last DESC, s.status, error, place`;
}

async function slowestScans(sql: Queries, since: Date): Promise<readonly z.infer<typeof NotedScan>[]> {
  return await sql<z.infer<typeof NotedScan>[]>`
    SELECT ${notedColumns(sql)}
    FROM (
      SELECT id, user_id, creation_date, duration_ms, size_bytes FROM scans
      WHERE duration_ms >= 1000 AND creation_date >= ${since} ORDER BY duration_ms DESC, creation_date DESC LIMIT ${SLOWEST}
    ) AS s LEFT JOIN users u ON u.id = user_id
    ORDER BY duration_ms DESC, s.creation_date DESC`;
}

function byReason(rows: readonly FailedScan[]): NotedScans['errors'] {
  const errors: NotedScans['errors'] = [];
  for (const { status, reason, count, oldest: _oldest, isCut: _isCut, ...example } of rows) {
    const last = errors.at(-1);
    if (last?.status === status && last.reason === reason) last.examples.push(example);
    else errors.push({ status, reason, count, lastAt: example.at, examples: [example] });
  }
  return errors;
}

/** Of a scan that the query calls `s`. */
function notedColumns(sql: Queries): Fragment {
  return sql`
    s.id, user_id AS "userId", email, to_char(s.creation_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') AS at,
    duration_ms AS "durationMillis", size_bytes AS "sizeInBytes"`;
}
