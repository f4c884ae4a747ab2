// The hour's units in Postgres: a copy of what the ledger counts, at most a second old, and the counter itself while the ledger is away. And what this process copies there: counts
// every second, sooner when a unit came back or few are left, since there the count goes on while the ledger is away, or starts from when it lost its own; of scans that were refused
// every few seconds.
import { recentTable, USUAL } from '../recent-table.js';
import type { Fragment, Sql } from '../store/postgres.js';
import { StoreAway } from '../store/store-error.js';
import { createRounds } from '../waiting/limiter.js';
import {
  type Count,
  type GivenBack,
  HOUR_SECONDS,
  HOURS_KEPT,
  type QuotaHour,
  type UsedHour,
  usedOf,
} from './admission.js';

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

interface HourRow {
  readonly user_id: string;
  readonly key_id: string | null;
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
const DAY_SECONDS = 24 * HOUR_SECONDS;
/** Of a count that meets another one's end of the hour or refund each time. */
const ATTEMPTS = 5;

/** `isShared`: other processes count in Redis, so Postgres counts only when it is its turn (turns.ts). */
export function createQuotaHours(sql: Sql, isShared = false) {
  const mayCount = isShared ? sql`(SELECT postgres_counts())` : sql`true`;
  const counts = sql`window_start, mirrored, returned, direct, direct_returned`;
  const ofUsers = {
    ...{ table: sql`quota_hours`, columns: sql`user_id, NULL::uuid AS key_id, ${counts}` },
    ...{ owners: sql`users`, ids: sql`o.id`, named: sql`user_id`, unique: sql`user_id` },
  };
  const ofKeys = {
    ...{ table: sql`key_hours`, columns: sql`user_id, key_id, ${counts}` },
    ...{ owners: sql`api_keys`, ids: sql`o.id, o.user_id`, named: sql`key_id, user_id`, unique: sql`key_id` },
  };
  const thisHour = sql`floor(extract(epoch FROM now()))::bigint / 3600 * 3600`;
  const nowSeconds = sql`floor(extract(epoch FROM now()))::bigint AS now_seconds`;
  const isCurrent = sql`window_start BETWEEN extract(epoch FROM now()) - ${CURRENT_SECONDS} AND extract(epoch FROM now()) + ${CURRENT_SECONDS}`;

  /** The hours of a user or of a key: their table, and which of its rows they are. */
  function hoursOf(userId: string, keyId: string | undefined): HourPlace {
    if (keyId === undefined) {
      const owner = sql`SELECT id, ${thisHour} FROM users WHERE id = ${userId}`;
      return { ...ofUsers, isTheirs: sql`user_id = ${userId}`, first: sql`(user_id, window_start) ${owner}` };
    }
    const owner = sql`SELECT user_id, id, ${thisHour} FROM api_keys WHERE id = ${keyId}`;
    return { ...ofKeys, isTheirs: sql`key_id = ${keyId}`, first: sql`(user_id, key_id, window_start) ${owner}` };
  }

  async function mirrored({ table, columns, owners, ids, named, unique }: typeof ofUsers, seen: readonly Seen[]) {
    const rows = inOrder(seen);
    if (rows.length === 0) return [];
    return await sql<HourRow[]>`
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

  return {
    /** The hours of the user next to the present one, and those of their keys. */
    async read(userId: string): Promise<QuotaHour[]> {
      const [hours, current] = await Promise.all([
        sql<HourRow[]>`
          SELECT ${ofUsers.columns} FROM quota_hours WHERE user_id = ${userId}
          ORDER BY abs(window_start - extract(epoch FROM now())) LIMIT ${HOURS_KEPT}`,
        sql<HourRow[]>`SELECT ${ofKeys.columns} FROM key_hours WHERE user_id = ${userId} AND ${isCurrent}`,
      ]);
      return [...hours, ...current].map(hourOf);
    },
    /** This hour and those next to it of everybody who had units in them. */
    async current(): Promise<QuotaHour[]> {
      const rows = await sql<HourRow[]>`
        SELECT ${ofUsers.columns} FROM quota_hours WHERE ${isCurrent}
        UNION ALL SELECT ${ofKeys.columns} FROM key_hours WHERE ${isCurrent}`;
      return rows.map(hourOf);
    },
    /** Writes what the ledger counted, each hour once; returns the rows as they are now. */
    async mirror(seen: readonly Seen[]): Promise<QuotaHour[]> {
      const written = await Promise.all([
        mirrored(
          ofUsers,
          seen.filter(({ keyId }) => keyId === undefined),
        ),
        mirrored(
          ofKeys,
          seen.filter(({ keyId }) => keyId !== undefined),
        ),
      ]);
      return written.flat().map(hourOf);
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
        const [taken] = await sql<(HourRow & { now_seconds: string })[]>`
          UPDATE ${table} SET direct = direct + 1, mirrored = ${mirrored}, returned = ${returned}
          WHERE ${hour} AND ${mayCount} AND ${mirrored} - ${returned} + direct - direct_returned < ${hourlyLimit}::integer
          RETURNING ${columns}, ${nowSeconds}`;
        if (taken !== undefined) return { ...hourOf(taken), kind: 'taken', nowSeconds: Number(taken.now_seconds) };
        const made = await sql`INSERT INTO ${table} ${first} ON CONFLICT DO NOTHING RETURNING user_id`;
        if (made.length > 0) continue;
        const [full] = await sql<(HourRow & { now_seconds: string; may_count: boolean })[]>`
          SELECT ${columns}, ${mirrored} AS mirrored, ${returned} AS returned, ${nowSeconds}, ${mayCount} AS may_count
          FROM ${table} WHERE ${hour}`;
        if (full?.may_count === false) throw new StoreAway(new Error('Redis counts'));
        // A unit may have come back, or the hour have ended, between the statements.
        if (full === undefined || usedOf(hourOf(full)) < hourlyLimit) continue;
        return { ...hourOf(full), kind: 'exhausted', nowSeconds: Number(full.now_seconds) };
      }
      throw new Error('The hour could not be counted: its row came and went');
    },
    /** Counts a unit that came back beside those that were taken in the same way; null: the hour is gone. */
    async giveBack(
      userId: string,
      windowStartSeconds: number,
      taken: 'mirrored' | 'direct',
      keyId?: string,
    ): Promise<QuotaHour | null> {
      const counted =
        taken === 'direct'
          ? sql`direct_returned = least(direct, direct_returned + 1)`
          : sql`returned = least(mirrored, returned + 1)`;
      const { table, columns, isTheirs } = hoursOf(userId, keyId);
      const [row] = await sql<HourRow[]>`
        UPDATE ${table} SET ${counted} WHERE ${isTheirs} AND window_start = ${windowStartSeconds} RETURNING ${columns}`;
      return row === undefined ? null : hourOf(row);
    },
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
    /** Removes hours that nobody can ask for any more. */
    async sweep(): Promise<void> {
      // The oldest hour alone: while the clock is far ahead, for a while, the others stay.
      for (const { table } of [ofUsers, ofKeys]) {
        await sql`
          DELETE FROM ${table} WHERE window_start = (SELECT min(window_start) FROM ${table})
            AND window_start < extract(epoch FROM now()) - ${KEPT_SECONDS}`;
      }
      await sql`DELETE FROM refused_hours WHERE window_start < extract(epoch FROM now()) - ${KEPT_SECONDS}`;
    },
  };
}

interface HourPlace {
  readonly table: Fragment;
  readonly columns: Fragment;
  readonly isTheirs: Fragment;
  /** Its row in this hour, for an INSERT. */
  readonly first: Fragment;
}

/** All nodes write in the same order: two of them must not wait for each other's rows. */
function inOrder(seen: readonly Seen[]): Seen[] {
  return seen.toSorted((one, other) => {
    const [first, second] = [one.keyId ?? one.userId, other.keyId ?? other.userId];
    if (first === second) return one.windowStartSeconds - other.windowStartSeconds;
    return first < second ? -1 : 1;
  });
}

/** What the ledger had counted when a unit came back, as it is mirrored. */
export function seenIn(userId: string, keyId: string | undefined, left: GivenBack): Seen[] {
  const { own, windowStartSeconds, counted, returned } = left;
  const ofAccount = { userId, windowStartSeconds, counted, returned };
  if (own === undefined || keyId === undefined) return [ofAccount];
  return [ofAccount, { userId, keyId, windowStartSeconds, counted: own.counted, returned: own.returned }];
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

function hourOf({ user_id, key_id, window_start, mirrored, returned, direct, direct_returned }: HourRow): QuotaHour {
  const windowStartSeconds = Number(window_start);
  const hour = { userId: user_id, windowStartSeconds, mirrored, returned, direct, directReturned: direct_returned };
  return key_id === null ? hour : { ...hour, keyId: key_id };
}

type Counted = Pick<Count, 'windowStartSeconds' | 'counted' | 'returned'>;

export type QuotaMirror = ReturnType<typeof createQuotaMirror>;

interface QuotaMirrorOptions {
  /** Gets the hours of which Postgres counted a part itself. */
  readonly onDirect: (hours: QuotaHour[]) => Promise<void>;
  /** Called for the first copy in a row that failed. */
  readonly onFailure: (error: unknown) => void;
  /** Of more users than these the one whose count changed least recently goes. */
  readonly usersMax: number;
}

/** What other nodes may not know of a count when the ledger goes away, and what a kill may cost. */
const COPY_MS = 1_000;
/** The same where that is too late: those of one moment share a copy. */
const URGENT_MS = 20;
const BATCH_ROWS = 1_000;

export function createQuotaMirror(hours: QuotaHours, options: QuotaMirrorOptions) {
  const { onDirect, onFailure, usersMax } = options;
  const newest = recentTable<Seen>(usersMax);
  /** What Postgres doesn't have yet: the newest of users, and what was the newest of an hour that is another one by now. */
  let unwritten = new Set<Seen>();
  let writing: Promise<void> | null = null;
  let soon: NodeJS.Timeout | null = null;
  let isCopied = true;

  async function write(): Promise<void> {
    const rows = onceEach(unwritten);
    unwritten = new Set();
    const direct: QuotaHour[] = [];
    for (let start = 0; start < rows.length; start += BATCH_ROWS) {
      try {
        const written = await hours.mirror(rows.slice(start, start + BATCH_ROWS));
        direct.push(...written.filter((row) => row.direct > 0).map((row) => ({ ...row, mirrored: 0, returned: 0 })));
      } catch (error) {
        for (const seen of rows.slice(start)) keep(seen);
        throw error;
      }
    }
    // This comes after all counts are in Postgres: a ledger that is away must not keep them out. It learns of them when it is back.
    if (direct.length > 0) await onDirect(direct).catch(ignoreIfAway);
  }

  function keep(seen: Seen): void {
    unwritten.add(seen);
    if (unwritten.size <= usersMax) return;
    for (const oldest of unwritten) {
      unwritten.delete(oldest);
      return;
    }
  }

  /** Copies what is new; keeps it when Postgres can't take it. Rejects then. */
  function flush(): Promise<void> {
    // One at a time, and each sees what came before it was asked for.
    const next = (writing ?? Promise.resolve()).catch(() => undefined).then(write);
    writing = next;
    return next;
  }

  function copy(): void {
    soon = null;
    flush().then(
      () => {
        isCopied = true;
      },
      (error: unknown) => {
        if (isCopied) onFailure(error);
        isCopied = false;
      },
    );
  }

  /** The ledger's newest count of a user, or of a key that has a limit of its own. Answers of one hour may come in another order than they were given; the next hour may be another one in both directions. */
  function saw(userId: string, { windowStartSeconds, counted, returned }: Counted, keyId?: string): void {
    // Both are UUIDs, which nothing else has.
    const name = keyId ?? userId;
    const known = newest.get(name, USUAL);
    if (known?.windowStartSeconds !== windowStartSeconds) {
      const seen = { userId, keyId, windowStartSeconds, counted, returned };
      newest.set(name, seen);
      keep(seen);
    } else if (counted > known.counted || returned > known.returned) {
      raise(known, counted, returned);
      if (!unwritten.has(known)) keep(known);
    }
  }

  const copying = setInterval(copy, COPY_MS);
  copying.unref();
  return {
    saw,
    /**
     * The same, copied at once: after a unit came back, which a process that is killed must not take again; and where few are left, so that what
     * stands in for the ledger gives none of them twice.
     */
    sawUrgently(userId: string, count: Counted, keyId?: string): void {
      saw(userId, count, keyId);
      soon ??= setTimeout(copy, URGENT_MS).unref();
    },
    /** The newest count that this node knows of. */
    seen: (userId: string, keyId?: string): Seen | null => newest.peek(keyId ?? userId) ?? null,
    flush,
    /** Copies nothing more by itself. */
    stop(): void {
      clearInterval(copying);
      if (soon !== null) clearTimeout(soon);
    },
  };
}

function raise(seen: Seen, counted: number, returned: number): void {
  seen.counted = Math.max(seen.counted, counted);
  seen.returned = Math.max(seen.returned, returned);
}

/** An hour of a user that was left and came again is there twice. */
function onceEach(all: Iterable<Seen>): Seen[] {
  const hours = new Map<string, Seen>();
  for (const seen of all) {
    const name = `${seen.keyId ?? seen.userId} ${seen.windowStartSeconds}`;
    const known = hours.get(name);
    if (known === undefined) hours.set(name, { ...seen });
    else raise(known, seen.counted, seen.returned);
  }
  return [...hours.values()];
}

function ignoreIfAway(error: unknown): void {
  if (!(error instanceof StoreAway)) throw error;
}

/** What a process that is killed forgets. */
const WRITE_MS = 3_000;
/** Users and hours at once; what comes beyond is not counted until the next write. */
const HELD_MAX = 100_000;

export function createRefusals(hours: Pick<QuotaHours, 'refuse'>, onProblem: (message: string) => void) {
  let held = new Map<string, RefusedHour>();
  function add(userId: string, windowStartSeconds: number, count: number): void {
    const place = `${userId} ${windowStartSeconds}`;
    const known = held.get(place);
    if (known !== undefined) known.count += count;
    else if (held.size < HELD_MAX) held.set(place, { userId, windowStartSeconds, count });
  }

  async function write(): Promise<void> {
    if (held.size === 0) return;
    // In the same order on all nodes: two of them must not wait for each other's rows.
    const rows = [...held].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row);
    held = new Map();
    try {
      await hours.refuse(rows);
    } catch (error) {
      for (const { userId, windowStartSeconds, count } of rows) add(userId, windowStartSeconds, count);
      throw error;
    }
  }

  const { now: flush, end: stop } = createRounds(WRITE_MS, write, (error) =>
    onProblem(`Refusals can't be counted in Postgres: ${String(error)}`),
  );
  return {
    count: (userId: string, windowStartSeconds: number): void => add(userId, windowStartSeconds, 1),
    /** Adds what is counted to Postgres; what can't be written is kept. Rejects then. */
    flush,
    stop,
  };
}
