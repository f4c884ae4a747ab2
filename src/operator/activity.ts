// What scans of all nodes and accounts have come to lately: outcomes by day, errors by reason, refusals and the slowest scans. All of it is in the database.
import { z } from 'zod';
import { OutcomeDays, outcomeDays } from '../history/days.js';
import { NotedScans, notedScans } from '../history/noted-scans.js';
import type { Queries, Sql } from '../store/postgres.js';

const QuotaRefusals = z.array(z.object({ userId: z.uuid(), email: z.string(), refused: z.int() }));
type QuotaRefusals = z.infer<typeof QuotaRefusals>;

export const ActivityView = NotedScans.extend({
  days: OutcomeDays.describe('Days of UTC'),
  refusals: QuotaRefusals.describe(
    'Scans of the last 24 hours that were refused since the quota was used up or too many of the account waited, which have no rows: the accounts with the most',
  ),
}).meta({ id: 'Activity' });
type ActivityView = z.infer<typeof ActivityView>;

const REFUSED_ACCOUNTS = 20;
const HOUR_SECONDS = 3_600;
const DAY_HOURS = 24;

export async function activityOf(sql: Sql, nowMs: number): Promise<ActivityView> {
  const days = await outcomeDays(sql, null, nowMs);
  return { ...(await notedScans(sql, nowMs)), days, refusals: await quotaRefusals(sql, nowMs) };
}

/** By account, of this hour and the 23 before it. */
async function quotaRefusals(sql: Queries, nowMs: number): Promise<QuotaRefusals> {
  const thisHour = Math.floor(nowMs / 1_000 / HOUR_SECONDS) * HOUR_SECONDS;
  return await sql<QuotaRefusals>`
    SELECT user_id AS "userId", email, sum(refused)::float8 AS refused
    FROM refused_hours JOIN users ON users.id = user_id
    WHERE window_start > ${thisHour - DAY_HOURS * HOUR_SECONDS}
    GROUP BY user_id, email ORDER BY sum(refused) DESC, user_id LIMIT ${REFUSED_ACCOUNTS}`;
}
