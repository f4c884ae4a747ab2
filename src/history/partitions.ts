// The months of the history: made before they are needed, dropped as a whole when they are older than anybody wants them.
import type { Sql } from '../store/postgres.js';
import { wireDay } from '../wire-time.js';

/** This month and the next two: a database that is away for weeks still finds its partition ready. */
const MONTHS_AHEAD = 2;
/** More often than needed: a run that failed, or a lock that couldn't be had, is made up for soon. */
const INTERVAL_MS = 6 * 3_600_000;
const DAY_MS = 86_400_000;

export interface PartitionOptions {
  readonly sql: Sql;
  readonly retentionDays: number;
  readonly now: () => number;
  readonly onDropped: (months: number) => void;
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

/** A month goes when its last day is older than the retention; its counts go with it. */
export async function partition({ sql, retentionDays, now, onDropped }: PartitionOptions): Promise<void> {
  const today = new Date(now());
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead += 1) {
    const month = new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + ahead, 1));
    await sql`SELECT make_scan_partition(${wireDay(month)}::text::date)`;
  }
  const oldest = new Date(today.getTime() - retentionDays * DAY_MS);
  const month = new Date(Date.UTC(oldest.getUTCFullYear(), oldest.getUTCMonth(), 1));
  const [row] = await sql<{ dropped: number }[]>`SELECT drop_scan_partitions(${wireDay(month)}::text::date) AS dropped`;
  if (row !== undefined && row.dropped > 0) onDropped(row.dropped);
}
