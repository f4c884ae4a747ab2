// The hour's units in Postgres: a copy of what the ledger counts, at most a second old, and the counter itself while the ledger is away.
import type { Fragment, Sql } from '../store/postgres.js';
import { StoreAway } from '../store/store-error.js';
import { HOUR_SECONDS, HOURS_KEPT, type QuotaHour, type UsedHour, usedOf } from './admission.js';

/** What the ledger had counted of an hour when it was last asked; it grows. */
export interface Seen {
  readonly userId: string;
  /** Of a key that has a limit of its own. */
  readonly keyId?: string | undefined;
  readonly windowStartSeconds: number;
  counted: number;
  returned: number;
}

export interface DirectCount extends QuotaHour {
  readonly kind: 'taken' | 'exhausted';
  readonly nowSeconds: number;
}

/** Scans of a user that were refused in an hour, since they were written last. */
export interface RefusedHour {
  readonly userId: string;
  readonly windowStartSeconds: number;
  count: number;
}

export type QuotaHours = ReturnType<typeof createQuotaHours>;

/** Hours that a unit can still be taken in or come back into. */
const CURRENT_SECONDS = 7_200;
/** A clock that is wrong by less, for a while, finds its hours. */
const KEPT_SECONDS = 26 * 3_600;
const DAY_SECONDS = 24 * HOUR_SECONDS;
/** Of a count that meets another one's end of the hour or refund each time. */
const ATTEMPTS = 5;

/** `isShared`: other processes count in Redis, so Postgres counts only when it is its turn (turns.ts). */
export function createQuotaHours(sql: Sql, isShared = false) {
  const places = createHourPlaces(sql);
  return {
    ...createHourReads(sql, places),
    ...createHourCounts(sql, places, isShared),
    /** Adds what was refused, an hour of a user once and in the same order on all nodes. */
    async refuse(rows: readonly RefusedHour[]): Promise<void> {
      await sql`
        INSERT INTO refused_hours AS r (user_id, window_start, refused)
        SELECT u.id, s.window_start, s.refused
        FROM unnest(${rows.map(({ userId }) => userId)}::uuid[], ${rows.map((row) => row.windowStartSeconds)}::bigint[],
          ${rows.map(({ count }) => count)}::bigint[]) WITH ORDINALITY AS s (user_id, window_start, refused, place)
        JOIN users u ON u.id = s.user_id
        ORDER BY s.place
        ON CONFLICT (user_id, window_start) DO UPDATE SET refused = r.refused + excluded.refused`;
    },
    /** Removes hours that nobody can ask for any more. */
    async sweep(): Promise<void> {
      // The oldest hour alone: while the clock is far ahead, for a while, the others stay.
      for (const { table } of [places.ofUsers, places.ofKeys]) {
        await sql`
          DELETE FROM ${table} WHERE window_start = (SELECT min(window_start) FROM ${table})
            AND window_start < extract(epoch FROM now()) - ${KEPT_SECONDS}`;
      }
      await sql`DELETE FROM refused_hours WHERE window_start < extract(epoch FROM now()) - ${KEPT_SECONDS}`;
    },
  };
}

type HourPlaces = ReturnType<typeof createHourPlaces>;

/** Hours of users and of keys: their tables, and how they are named there. */
function createHourPlaces(sql: Sql) {
  const counts = sql`window_start::float8 AS "windowStartSeconds", mirrored, returned, direct, direct_returned AS "directReturned"`;
  const ofUsers = {
    ...{ table: sql`quota_hours`, columns: sql`user_id AS "userId", ${counts}` },
    ...{ owners: sql`users`, ids: sql`o.id`, named: sql`user_id`, unique: sql`user_id` },
  };
  const ofKeys = {
    ...{ table: sql`key_hours`, columns: sql`user_id AS "userId", key_id AS "keyId", ${counts}` },
    ...{ owners: sql`api_keys`, ids: sql`o.id, o.user_id`, named: sql`key_id, user_id`, unique: sql`key_id` },
  };
  const thisHour = sql`floor(extract(epoch FROM now()))::bigint / 3600 * 3600`;
  const isCurrent = sql`window_start BETWEEN extract(epoch FROM now()) - ${CURRENT_SECONDS} AND extract(epoch FROM now()) + ${CURRENT_SECONDS}`;

  /** The hours of a user or of a key: their table, and which of its rows they are. `first`: its row in this hour, for an INSERT. */
  function hoursOf(userId: string, keyId: string | undefined) {
    if (keyId === undefined) {
      const owner = sql`SELECT id, ${thisHour} FROM users WHERE id = ${userId}`;
      return { ...ofUsers, isTheirs: sql`user_id = ${userId}`, first: sql`(user_id, window_start) ${owner}` };
    }
    const owner = sql`SELECT user_id, id, ${thisHour} FROM api_keys WHERE id = ${keyId}`;
    return { ...ofKeys, isTheirs: sql`key_id = ${keyId}`, first: sql`(user_id, key_id, window_start) ${owner}` };
  }

  return { ofUsers, ofKeys, hoursOf, thisHour, isCurrent };
}

function createHourReads(sql: Sql, { ofUsers, ofKeys, thisHour, isCurrent }: HourPlaces) {
  return {
    /** The hours of the user next to the present one, and those of their keys. */
    async read(userId: string): Promise<QuotaHour[]> {
      const [hours, current] = await Promise.all([
        sql<QuotaHour[]>`
          SELECT ${ofUsers.columns} FROM quota_hours WHERE user_id = ${userId}
          ORDER BY abs(window_start - extract(epoch FROM now())) LIMIT ${HOURS_KEPT}`,
        sql<QuotaHour[]>`SELECT ${ofKeys.columns} FROM key_hours WHERE user_id = ${userId} AND ${isCurrent}`,
      ]);
      return [...hours, ...current];
    },
    /** This hour and those next to it of everybody who had units in them. */
    async current(): Promise<QuotaHour[]> {
      const [hours, current] = await Promise.all([
        sql<QuotaHour[]>`SELECT ${ofUsers.columns} FROM quota_hours WHERE ${isCurrent}`,
        sql<QuotaHour[]>`SELECT ${ofKeys.columns} FROM key_hours WHERE ${isCurrent}`,
      ]);
      return [...hours, ...current];
    },
    /** What the user has used in this hour of Postgres's clock. */
    async present(userId: string): Promise<Pick<UsedHour, 'windowStartSeconds' | 'used'>> {
      const [hour] = await sql<Pick<UsedHour, 'windowStartSeconds' | 'used'>[]>`
        SELECT hour::float8 AS "windowStartSeconds", coalesce(mirrored - returned + direct - direct_returned, 0) AS used
        FROM (SELECT ${thisHour} AS hour) AS present LEFT JOIN quota_hours q ON q.user_id = ${userId} AND q.window_start = hour`;
      if (hour === undefined) throw new Error('The hour that Postgres has is not there');
      return hour;
    },
    /** What the user has used and was refused in each hour of the last day, the oldest first. */
    async lastDay(userId: string): Promise<UsedHour[]> {
      return await sql<UsedHour[]>`
        SELECT hour::float8 AS "windowStartSeconds", coalesce(mirrored - returned + direct - direct_returned, 0) AS used,
          coalesce(refused, 0)::float8 AS refused
        FROM generate_series(${thisHour} - ${DAY_SECONDS - HOUR_SECONDS}, ${thisHour}, ${HOUR_SECONDS}) AS hour
        LEFT JOIN quota_hours q ON q.user_id = ${userId} AND q.window_start = hour
        LEFT JOIN refused_hours r ON r.user_id = ${userId} AND r.window_start = hour
        ORDER BY hour`;
    },
  };
}

function createHourCounts(sql: Sql, { ofUsers, ofKeys, hoursOf, thisHour }: HourPlaces, isShared: boolean) {
  const mayCount = isShared ? sql`(SELECT postgres_counts())` : sql`true`;
  const nowSeconds = sql`floor(extract(epoch FROM now()))::float8 AS "nowSeconds"`;

  return {
    /** Writes what the ledger counted, each hour once; returns the rows as they are now. */
    async mirror(seen: readonly Seen[]): Promise<QuotaHour[]> {
      const written = await Promise.all([
        mirrorIn(
          sql,
          ofUsers,
          seen.filter(({ keyId }) => keyId === undefined),
        ),
        mirrorIn(
          sql,
          ofKeys,
          seen.filter(({ keyId }) => keyId !== undefined),
        ),
      ]);
      return written.flat();
    },
    /**
     * Takes one unit of the user here, or of a key of theirs, by Postgres's clock; `seen` is what the ledger had counted as far as this node knows.
     * Rejects with StoreAway where the ledger counts.
     */
    async take(userId: string, hourlyLimit: number, seen: Seen | null, keyId?: string): Promise<DirectCount> {
      const { mirrored, returned } = raisedBy(sql, seen);
      const { table, columns, isTheirs, first } = hoursOf(userId, keyId);
      const hour = sql`${isTheirs} AND window_start = ${thisHour}`;
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        // Postgres judges the newest version of the row, under its lock: that is what makes it exact.
        const [taken] = await sql<(QuotaHour & { nowSeconds: number })[]>`
          UPDATE ${table} SET direct = direct + 1, mirrored = ${mirrored}, returned = ${returned}
          WHERE ${hour} AND ${mayCount} AND ${mirrored} - ${returned} + direct - direct_returned < ${hourlyLimit}::integer
          RETURNING ${columns}, ${nowSeconds}`;
        if (taken !== undefined) return { ...taken, kind: 'taken' };
        const made = await sql`INSERT INTO ${table} ${first} ON CONFLICT DO NOTHING RETURNING user_id`;
        if (made.length > 0) continue;
        const [full] = await sql<(QuotaHour & { nowSeconds: number; mayCount: boolean })[]>`
          SELECT ${columns}, ${mirrored} AS mirrored, ${returned} AS returned, ${nowSeconds}, ${mayCount} AS "mayCount"
          FROM ${table} WHERE ${hour}`;
        // A unit may have come back, or the hour have ended, between the statements.
        if (full === undefined) continue;
        const { mayCount: isItsTurn, ...found } = full;
        if (!isItsTurn) throw new StoreAway(new Error('Redis counts'));
        if (usedOf(found) < hourlyLimit) continue;
        return { ...found, kind: 'exhausted' };
      }
      throw new Error('The hour could not be counted: its row came and went');
    },
    /** Counts a unit that came back: beside those that were taken here, as long as there is one, since nobody else counts these; null: the hour is gone. */
    async giveBack(userId: string, windowStartSeconds: number, keyId?: string): Promise<QuotaHour | null> {
      const { table, columns, isTheirs } = hoursOf(userId, keyId);
      const [row] = await sql<QuotaHour[]>`
        UPDATE ${table} SET direct_returned = least(direct, direct_returned + 1),
          returned = CASE WHEN direct_returned < direct THEN returned ELSE least(mirrored, returned + 1) END
        WHERE ${isTheirs} AND window_start = ${windowStartSeconds} RETURNING ${columns}`;
      return row ?? null;
    },
  };
}

async function mirrorIn(
  sql: Sql,
  { table, columns, owners, ids, named, unique }: HourPlaces['ofUsers'],
  seen: readonly Seen[],
) {
  const rows = inOrder(seen);
  if (rows.length === 0) return [];
  return await sql<QuotaHour[]>`
    INSERT INTO ${table} AS q (${named}, window_start, mirrored, returned)
    SELECT ${ids}, s.window_start, s.counted, s.returned
    FROM unnest(${rows.map(({ keyId, userId }) => keyId ?? userId)}::uuid[], ${rows.map((row) => row.windowStartSeconds)}::bigint[],
      ${rows.map(({ counted }) => counted)}::integer[], ${rows.map(({ returned }) => returned)}::integer[])
      WITH ORDINALITY AS s (id, window_start, counted, returned, place)
    JOIN ${owners} o ON o.id = s.id
    ORDER BY s.place
    ON CONFLICT (${unique}, window_start) DO UPDATE
      SET mirrored = greatest(q.mirrored, excluded.mirrored), returned = greatest(q.returned, excluded.returned)
    RETURNING ${columns}`;
}

/** All nodes write in the same order: two of them must not wait for each other's rows. */
function inOrder(seen: readonly Seen[]): Seen[] {
  return seen.toSorted((one, other) => {
    const [first, second] = [one.keyId ?? one.userId, other.keyId ?? other.userId];
    if (first === second) return one.windowStartSeconds - other.windowStartSeconds;
    return first < second ? -1 : 1;
  });
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
