// What this process copies to Postgres: counts every second, sooner when a unit came back or few are left, since there the count goes on while the ledger is away, or starts from
// when it lost its own; of scans that were refused every few seconds.
import { recentTable, USUAL } from '../recent-table.js';
import { ignoreIfAway } from '../store/store-error.js';
import { createRounds } from '../waiting/limiter.js';
import type { Count, QuotaHour } from './admission.js';
import type { QuotaHours, RefusedHour, Seen } from './quota-hours.js';

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
  const { onFailure, usersMax } = options;
  const newest = recentTable<Seen>(usersMax);
  const backlog = createBacklog(hours, options);
  let soon: NodeJS.Timeout | null = null;
  let isCopied = true;

  function copy(): void {
    soon = null;
    backlog.flush().then(
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
      backlog.keep(seen);
    } else if (counted > known.counted || returned > known.returned) {
      raise(known, counted, returned);
      backlog.keep(known);
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
    flush: backlog.flush,
    /** Copies nothing more by itself. */
    stop(): void {
      clearInterval(copying);
      if (soon !== null) clearTimeout(soon);
    },
  };
}

/** What Postgres doesn't have yet: the newest of users, and what was the newest of an hour that is another one by now. */
function createBacklog(hours: QuotaHours, { onDirect, usersMax }: QuotaMirrorOptions) {
  let unwritten = new Set<Seen>();
  let writing: Promise<void> | null = null;

  function keep(seen: Seen): void {
    unwritten.add(seen);
    if (unwritten.size <= usersMax) return;
    for (const oldest of unwritten) {
      unwritten.delete(oldest);
      return;
    }
  }

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

  return {
    keep,
    /** Copies what is new; keeps it when Postgres can't take it. Rejects then. */
    flush(): Promise<void> {
      // One at a time, and each sees what came before it was asked for.
      const next = (writing ?? Promise.resolve()).catch(() => undefined).then(write);
      writing = next;
      return next;
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
