// The hour's units in Postgres: a copy of what the ledger counts, at most a second old, and the counter itself while the ledger is away.

import type { Fragment, Sql } from '../store/postgres.js';
import { type QuotaHour, usedOf } from './admission.js';
import { HOURS_KEPT } from './ledger.js';

/** What the ledger had counted of a user's hour when it was last asked; it grows. */
export interface Seen {
  readonly userId: string;
  readonly windowStartSeconds: number;
  counted: number;
  returned: number;
}

export interface DirectCount extends QuotaHour {
  readonly kind: 'taken' | 'exhausted';
  readonly nowSeconds: number;
}

export interface QuotaHours {
  /** The hours of the user next to the present one. */
  read(userId: string): Promise<QuotaHour[]>;
  /** This hour and those next to it of everybody who had units in them. */
  current(): Promise<QuotaHour[]>;
  /** Writes what the ledger counted, an hour of a user once; returns the rows as they are now. */
  mirror(seen: readonly Seen[]): Promise<QuotaHour[]>;
  /** Takes one unit here, by Postgres's clock; `seen` is what the ledger had counted as far as this node knows. */
  take(userId: string, hourlyLimit: number, seen: Seen | null): Promise<DirectCount>;
  /** Counts a unit that came back beside those that were taken in the same way; null: the hour is gone. */
  giveBack(userId: string, windowStartSeconds: number, taken: 'mirrored' | 'direct'): Promise<QuotaHour | null>;
  /** Removes hours that nobody can ask for any more. */
  sweep(): Promise<void>;
}

interface Row {
  readonly user_id: string;
  readonly window_start: string;
  readonly mirrored: number;
  readonly returned: number;
  readonly direct: number;
  readonly direct_returned: number;
}

/** Hours that a unit can still be taken in or come back into. */
const CURRENT_SECONDS = 7_200;
/** A clock that is wrong by less, for a while, finds its hours. */
const KEPT_SECONDS = 26 * 3_600;
/** Of a count that meets another one's end of the hour or refund each time. */
const ATTEMPTS = 5;

export function createQuotaHours(sql: Sql): QuotaHours {
  const columns = sql`user_id, window_start, mirrored, returned, direct, direct_returned`;
  const thisHour = sql`floor(extract(epoch FROM now()))::bigint / 3600 * 3600`;
  const nowSeconds = sql`floor(extract(epoch FROM now()))::bigint AS now_seconds`;

  return {
    async read(userId) {
      const rows = await sql<Row[]>`
        SELECT ${columns} FROM quota_hours WHERE user_id = ${userId}
        ORDER BY abs(window_start - extract(epoch FROM now())) LIMIT ${HOURS_KEPT}`;
      return rows.map(hourOf);
    },
    async current() {
      const rows = await sql<Row[]>`
        SELECT ${columns} FROM quota_hours
        WHERE window_start BETWEEN extract(epoch FROM now()) - ${CURRENT_SECONDS}
          AND extract(epoch FROM now()) + ${CURRENT_SECONDS}`;
      return rows.map(hourOf);
    },
    async mirror(seen) {
      if (seen.length === 0) return [];
      // All nodes write in the same order: two of them must not wait for each other's rows.
      const rows = seen.toSorted((one, other) =>
        one.userId === other.userId
          ? one.windowStartSeconds - other.windowStartSeconds
          : one.userId < other.userId
            ? -1
            : 1,
      );
      const written = await sql<Row[]>`
        INSERT INTO quota_hours AS q (user_id, window_start, mirrored, returned)
        SELECT u.id, s.window_start, s.counted, s.returned
        FROM unnest(${rows.map(({ userId }) => userId)}::uuid[], ${rows.map((row) => row.windowStartSeconds)}::bigint[],
          ${rows.map(({ counted }) => counted)}::integer[], ${rows.map(({ returned }) => returned)}::integer[])
          WITH ORDINALITY AS s (user_id, window_start, counted, returned, place)
        JOIN users u ON u.id = s.user_id
        ORDER BY s.place
        ON CONFLICT (user_id, window_start) DO UPDATE
          SET mirrored = greatest(q.mirrored, excluded.mirrored), returned = greatest(q.returned, excluded.returned)
        RETURNING ${columns}`;
      return written.map(hourOf);
    },
    async take(userId, hourlyLimit, seen) {
      const { mirrored, returned } = raisedBy(sql, seen);
      const hour = sql`user_id = ${userId} AND window_start = ${thisHour}`;
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        // Postgres judges the newest version of the row, under its lock: that is what makes it exact.
        const [taken] = await sql<(Row & { now_seconds: string })[]>`
          UPDATE quota_hours SET direct = direct + 1, mirrored = ${mirrored}, returned = ${returned}
          WHERE ${hour} AND ${mirrored} - ${returned} + direct - direct_returned < ${hourlyLimit}::integer
          RETURNING ${columns}, ${nowSeconds}`;
        if (taken !== undefined) return { ...hourOf(taken), kind: 'taken', nowSeconds: Number(taken.now_seconds) };
        const made = await sql`
          INSERT INTO quota_hours (user_id, window_start) SELECT id, ${thisHour} FROM users WHERE id = ${userId}
          ON CONFLICT DO NOTHING RETURNING user_id`;
        if (made.length > 0) continue;
        const [full] = await sql<(Row & { now_seconds: string })[]>`
          SELECT user_id, window_start, ${mirrored} AS mirrored, ${returned} AS returned, direct, direct_returned, ${nowSeconds}
          FROM quota_hours WHERE ${hour}`;
        // A unit may have come back, or the hour have ended, between the statements.
        if (full === undefined || usedOf(hourOf(full)) < hourlyLimit) continue;
        return { ...hourOf(full), kind: 'exhausted', nowSeconds: Number(full.now_seconds) };
      }
      throw new Error('The hour could not be counted: its row came and went');
    },
    async giveBack(userId, windowStartSeconds, taken) {
      const counted =
        taken === 'direct'
          ? sql`direct_returned = least(direct, direct_returned + 1)`
          : sql`returned = least(mirrored, returned + 1)`;
      const [row] = await sql<Row[]>`
        UPDATE quota_hours SET ${counted}
        WHERE user_id = ${userId} AND window_start = ${windowStartSeconds}
        RETURNING ${columns}`;
      return row === undefined ? null : hourOf(row);
    },
    async sweep() {
      // The oldest hour alone: while the clock is far ahead, for a while, the others stay.
      await sql`
        DELETE FROM quota_hours WHERE window_start = (SELECT min(window_start) FROM quota_hours)
          AND window_start < extract(epoch FROM now()) - ${KEPT_SECONDS}`;
    },
  };
}

/** The counts of a row, or what this node saw of its hour where that is newer. */
function raisedBy(sql: Sql, seen: Seen | null): { readonly mirrored: Fragment; readonly returned: Fragment } {
  const windowAt = seen?.windowStartSeconds ?? 0;
  const { counted = 0, returned = 0 } = seen ?? {};
  const isSeen = sql`window_start = ${windowAt}::bigint`;
  return {
    mirrored: sql`greatest(mirrored, CASE WHEN ${isSeen} THEN ${counted}::integer ELSE 0 END)`,
    returned: sql`greatest(returned, CASE WHEN ${isSeen} THEN ${returned}::integer ELSE 0 END)`,
  };
}

function hourOf({ user_id, window_start, mirrored, returned, direct, direct_returned }: Row): QuotaHour {
  const windowStartSeconds = Number(window_start);
  return { userId: user_id, windowStartSeconds, mirrored, returned, direct, directReturned: direct_returned };
}
