// The hour's units in Postgres: a copy of what the ledger counts, at most a second old, and the counter itself while the ledger is away.

import type { Sql } from '../store/postgres.js';
import type { QuotaHour } from './admission.js';

export interface Seen {
  readonly windowStartSeconds: number;
  /** Units that the ledger had counted when it was last asked. */
  readonly counted: number;
}

export interface DirectCount extends QuotaHour {
  readonly kind: 'taken' | 'exhausted';
  readonly nowSeconds: number;
}

export interface QuotaHours {
  /** The user's latest hours. */
  read(userId: string): Promise<QuotaHour[]>;
  /** This hour and the one before it of everybody who had units in them. */
  current(): Promise<QuotaHour[]>;
  /** Writes what the ledger counted, which only grows; returns the rows as they are now. */
  mirror(seen: ReadonlyMap<string, Seen>): Promise<QuotaHour[]>;
  /** Takes one unit here, by Postgres's clock; `seen` is what the ledger had counted as far as this node knows. */
  take(userId: string, hourlyLimit: number, seen: Seen | null): Promise<DirectCount>;
  giveBack(userId: string, windowStartSeconds: number): Promise<QuotaHour | null>;
  /** Takes a unit off what was mirrored; only where the ledger that counted it counts no more. */
  giveBackMirrored(userId: string, windowStartSeconds: number): Promise<void>;
  /** Removes hours that nobody can ask for any more. */
  sweep(): Promise<void>;
}

interface Row {
  readonly user_id: string;
  readonly window_start: string;
  readonly mirrored: number;
  readonly direct: number;
}

/** Hours that a user can still have units in or get them back into. */
const KEPT_SECONDS = 7_200;
/** Of a count that meets another one's end of the hour or refund each time. */
const ATTEMPTS = 5;

export function createQuotaHours(sql: Sql): QuotaHours {
  return {
    async read(userId) {
      const rows = await sql<Row[]>`
        SELECT user_id, window_start, mirrored, direct FROM quota_hours
        WHERE user_id = ${userId} ORDER BY window_start DESC LIMIT 2`;
      return rows.map(hourOf);
    },
    async current() {
      const rows = await sql<Row[]>`
        SELECT user_id, window_start, mirrored, direct FROM quota_hours
        WHERE window_start > extract(epoch FROM now()) - ${KEPT_SECONDS}`;
      return rows.map(hourOf);
    },
    async mirror(seen) {
      if (seen.size === 0) return [];
      const rows = [...seen].map(([userId, hour]) => ({ userId, ...hour }));
      // All nodes write in the same order: two of them must not wait for each other's rows.
      rows.sort((one, other) => (one.userId < other.userId ? -1 : 1));
      const written = await sql<Row[]>`
        INSERT INTO quota_hours AS q (user_id, window_start, mirrored)
        SELECT u.id, s.window_start, s.counted
        FROM unnest(${rows.map(({ userId }) => userId)}::uuid[], ${rows.map((row) => row.windowStartSeconds)}::bigint[],
          ${rows.map(({ counted }) => counted)}::integer[]) WITH ORDINALITY AS s (user_id, window_start, counted, place)
        JOIN users u ON u.id = s.user_id
        ORDER BY s.place
        ON CONFLICT (user_id, window_start) DO UPDATE SET mirrored = greatest(q.mirrored, excluded.mirrored)
        RETURNING user_id, window_start, mirrored, direct`;
      return written.map(hourOf);
    },
    async take(userId, hourlyLimit, seen) {
      const windowAt = seen?.windowStartSeconds ?? 0;
      const counted = seen?.counted ?? 0;
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        // Postgres judges the newest version of the row, under its lock: that is what makes it exact.
        const [taken] = await sql<(Row & { now_seconds: string })[]>`
          UPDATE quota_hours SET direct = direct + 1,
            mirrored = greatest(mirrored, CASE WHEN window_start = ${windowAt}::bigint THEN ${counted}::integer ELSE 0 END)
          WHERE user_id = ${userId} AND window_start = floor(extract(epoch FROM now()))::bigint / 3600 * 3600
            AND direct + greatest(mirrored, CASE WHEN window_start = ${windowAt}::bigint THEN ${counted}::integer ELSE 0 END)
              < ${hourlyLimit}
          RETURNING user_id, window_start, mirrored, direct, floor(extract(epoch FROM now()))::bigint AS now_seconds`;
        if (taken !== undefined) return { ...hourOf(taken), kind: 'taken', nowSeconds: Number(taken.now_seconds) };
        const made = await sql`
          INSERT INTO quota_hours (user_id, window_start)
          SELECT id, floor(extract(epoch FROM now()))::bigint / 3600 * 3600 FROM users WHERE id = ${userId}
          ON CONFLICT DO NOTHING RETURNING user_id`;
        if (made.length > 0) continue;
        const [full] = await sql<(Row & { now_seconds: string })[]>`
          SELECT user_id, window_start, greatest(mirrored, CASE WHEN window_start = ${windowAt}::bigint
            THEN ${counted}::integer ELSE 0 END) AS mirrored, direct, floor(extract(epoch FROM now()))::bigint AS now_seconds
          FROM quota_hours
          WHERE user_id = ${userId} AND window_start = floor(extract(epoch FROM now()))::bigint / 3600 * 3600`;
        // A unit may have come back, or the hour have ended, between the statements.
        if (full === undefined || full.mirrored + full.direct < hourlyLimit) continue;
        return { ...hourOf(full), kind: 'exhausted', nowSeconds: Number(full.now_seconds) };
      }
      throw new Error('The hour could not be counted: its row came and went');
    },
    async giveBack(userId, windowStartSeconds) {
      const [row] = await sql<Row[]>`
        UPDATE quota_hours SET direct = greatest(0, direct - 1)
        WHERE user_id = ${userId} AND window_start = ${windowStartSeconds}
        RETURNING user_id, window_start, mirrored, direct`;
      return row === undefined ? null : hourOf(row);
    },
    async giveBackMirrored(userId, windowStartSeconds) {
      await sql`
        UPDATE quota_hours SET mirrored = greatest(0, mirrored - 1)
        WHERE user_id = ${userId} AND window_start = ${windowStartSeconds}`;
    },
    async sweep() {
      await sql`DELETE FROM quota_hours WHERE window_start < extract(epoch FROM now()) - ${2 * KEPT_SECONDS}`;
    },
  };
}

function hourOf({ user_id, window_start, mirrored, direct }: Row): QuotaHour {
  return { userId: user_id, windowStartSeconds: Number(window_start), mirrored, direct };
}
