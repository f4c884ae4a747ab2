// Scans that were refused before they had a row, since the hour was used up or too many waited. They are counted by user and hour: in this process first, and every few seconds in Postgres.
import type { QuotaHours, RefusedHour } from './quota-hours.js';

/** What a process that is killed forgets. */
const WRITE_MS = 3_000;
/** Users and hours at once; what comes beyond is not counted until the next write. */
const HELD_MAX = 100_000;

export interface Refusals {
  count(userId: string, windowStartSeconds: number): void;
  /** Adds what is counted to Postgres; what can't be written is kept. Rejects then. */
  flush(): Promise<void>;
  stop(): void;
}

export function createRefusals(hours: Pick<QuotaHours, 'refuse'>, onProblem: (message: string) => void): Refusals {
  let held = new Map<string, RefusedHour>();
  let writing: Promise<void> | null = null;

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

  function flush(): Promise<void> {
    writing ??= write().finally(() => {
      writing = null;
    });
    return writing;
  }

  const timer = setInterval(() => {
    flush().catch((error: unknown) => onProblem(`Refusals can't be counted in Postgres: ${String(error)}`));
  }, WRITE_MS);
  timer.unref();
  return {
    count: (userId, windowStartSeconds) => add(userId, windowStartSeconds, 1),
    flush,
    stop: () => clearInterval(timer),
  };
}
