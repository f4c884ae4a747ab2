// The months of the history: made before they are needed, dropped as a whole when they are older than anybody wants them.
import type { Sql } from '../store/postgres.js';
import { wireDay } from '../wire-time.js';

/** This month and the next two: a database that is away for weeks still finds its partition ready. */
const MONTHS_AHEAD = 2;
/** More often than needed: a run that failed, or a lock that couldn't be had, is made up for soon. */
const INTERVAL_MS = 6 * 3_600_000;

export interface PartitionOptions {
  readonly sql: Sql;
  readonly retentionDays: number;
  readonly now: () => number;
  /** Called with a month (`YYYY-MM`) a day before it is dropped, and when it is. */
  readonly onRetention: (step: 'announced' | 'dropped', month: string) => void;
  readonly onFailure: (error: unknown) => void;
}

/** Runs at once and then every few hours, on as many nodes as there are. Returns what ends it. */
export async function keepPartitions(options: PartitionOptions): Promise<() => void> {
  const run = (): Promise<void> => partition(options).catch(options.onFailure);
  await run();
  const timer = setInterval(run, INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/**
 * A month goes when its last day is older than the retention, one a day at most; its counts go with it. No clock alone decides that:
 * the function of the database asks this one, its own and the newest row's, and one that was wrong for less than a day drops nothing.
 */
export async function partition({ sql, retentionDays, now, onRetention }: PartitionOptions): Promise<void> {
  const today = new Date(now());
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead += 1) {
    const month = new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + ahead, 1));
    await sql`SELECT make_scan_partition(${wireDay(month)}::text::date)`;
  }
  const [retired] = await sql<{ dropped: string | null; announced: string | null }[]>`
    SELECT to_char(dropped, 'YYYY-MM') AS dropped, to_char(announced, 'YYYY-MM') AS announced
    FROM retire_scan_month(${today}, ${retentionDays})`;
  if (retired === undefined) return;
  const { dropped, announced } = retired;
  if (dropped !== null) {
    await sql`DELETE FROM key_days WHERE day < ${`${dropped}-01`}::date + interval '1 month'`;
    onRetention('dropped', dropped);
  }
  if (announced !== null) onRetention('announced', announced);
}
