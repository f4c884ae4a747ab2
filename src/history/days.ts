// What scans have come to by day, from the roll-ups: of one account for its owner, of all for operators.
import { z } from 'zod';
import type { Queries } from '../store/postgres.js';
import { wireDay } from '../wire-time.js';

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
  const first = wireDay(new Date(nowMs - (DAYS - 1) * DAY_MS));
  const last = wireDay(new Date(nowMs));
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
