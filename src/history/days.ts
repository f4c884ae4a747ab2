// What scans have come to by day, from the roll-ups: of one account for its owner, of all for operators.
import { z } from 'zod';
import type { Queries } from '../store/postgres.js';
import { wireDay } from '../wire-text.js';

const count = z.int().min(0);
export const OutcomeDays = z.array(
  z
    .object({
      day: z.iso.date(),
      clean: count,
      infected: count,
      noVerdict: count.describe('422: not looked at as a whole'),
      refused: count.describe('other 4xx'),
      failed: count.describe('5xx'),
    })
    .meta({ id: 'DayCounts' }),
);
export type OutcomeDays = z.infer<typeof OutcomeDays>;

/** So many days are shown. */
const DAYS = 30;
const DAY_MS = 86_400_000;

/** `userId` null: of all accounts. Of the last 30 days, today last, each day once. */
export async function outcomeDays(sql: Queries, userId: string | null, nowMs: number): Promise<OutcomeDays> {
  const first = dayOf(nowMs - (DAYS - 1) * DAY_MS);
  const last = dayOf(nowMs);
  return await sql<OutcomeDays>`
    SELECT to_char(d, 'YYYY-MM-DD') AS day,
      COALESCE(sum(scans) FILTER (WHERE status = 200 AND NOT infected), 0)::float8 AS clean,
      COALESCE(sum(scans) FILTER (WHERE status = 200 AND infected), 0)::float8 AS infected,
      COALESCE(sum(scans) FILTER (WHERE status = 422), 0)::float8 AS "noVerdict",
      COALESCE(sum(scans) FILTER (WHERE status BETWEEN 400 AND 499 AND status <> 422), 0)::float8 AS refused,
      COALESCE(sum(scans) FILTER (WHERE status >= 500), 0)::float8 AS failed
    FROM generate_series(${first}::text::date, ${last}::text::date, interval '1 day') AS d
    LEFT JOIN scan_days ON scan_days.day = d::date AND (${userId}::uuid IS NULL OR user_id = ${userId}::uuid)
    GROUP BY d ORDER BY d`;
}

export interface ScanCounts {
  readonly infected: number;
  readonly clean: number;
}

export async function countVerdicts(sql: Queries, userId: string, startMs: number, endMs: number): Promise<ScanCounts> {
  const [counts] = await sql<ScanCounts[]>`
    SELECT coalesce(sum(scans) FILTER (WHERE infected), 0)::float8 AS infected,
      coalesce(sum(scans) FILTER (WHERE NOT infected), 0)::float8 AS clean
    FROM scan_days
    WHERE user_id = ${userId} AND status = 200 AND day BETWEEN ${dayOf(startMs)}::text::date AND ${dayOf(endMs)}::text::date`;
  return counts ?? { infected: 0, clean: 0 };
}

export interface MonthCounts extends ScanCounts {
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
    WHERE user_id = ${userId} AND status = 200 AND day >= ${dayOf(fromMs)}::text::date
    GROUP BY month`;
}

function dayOf(epochMs: number): string {
  return wireDay(new Date(epochMs));
}
