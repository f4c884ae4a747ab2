// What the ledger counts, copied to Postgres every second: there the count goes on while the ledger is away, or starts from when it lost its own.
import { recentTable } from '../recent-table.js';
import { StoreAway } from '../store/store-error.js';
import { type QuotaHour, REMEMBERED_MAX } from './admission.js';
import type { Count } from './ledger.js';
import type { QuotaHours, Seen } from './quota-hours.js';

export interface QuotaMirror {
  /** The ledger's newest count of a user. */
  saw(userId: string, count: Count): void;
  /** The newest count that this node knows of. */
  seen(userId: string): Seen | null;
  /** Copies what is new; keeps it when Postgres can't take it. Rejects then. */
  flush(): Promise<void>;
}

/** Rows of one statement. */
const BATCH_USERS = 1_000;

/** `onDirect` gets the hours of which Postgres counted a part itself. Of more users than `usersMax` the one whose count changed least recently goes. */
export function createQuotaMirror(
  hours: QuotaHours,
  onDirect: (hours: QuotaHour[]) => Promise<void>,
  usersMax: number = REMEMBERED_MAX,
): QuotaMirror {
  const unwritten = new Set<string>();
  const newest = recentTable<Seen>(usersMax, (userId) => unwritten.delete(userId));

  async function write(): Promise<void> {
    const direct: QuotaHour[] = [];
    for (const userIds of batchesOf([...unwritten])) {
      const batch = new Map<string, Seen>();
      for (const userId of userIds) {
        unwritten.delete(userId);
        const seen = newest.peek(userId);
        if (seen !== undefined) batch.set(userId, seen);
      }
      try {
        const rows = await hours.mirror(batch);
        direct.push(...rows.filter((row) => row.direct > 0).map((row) => ({ ...row, mirrored: 0 })));
      } catch (error) {
        for (const userId of userIds) unwritten.add(userId);
        throw error;
      }
    }
    // This comes after all counts are in Postgres: a ledger that is away must not keep them out. It learns of them when it is back.
    if (direct.length > 0) await onDirect(direct).catch(ignoreIfAway);
  }
  let writing: Promise<void> | null = null;

  return {
    saw(userId, { windowStartSeconds, counted }) {
      const known = newest.peek(userId);
      const isNewer =
        known === undefined ||
        windowStartSeconds > known.windowStartSeconds ||
        (windowStartSeconds === known.windowStartSeconds && counted > known.counted);
      if (!isNewer) return;
      newest.set(userId, { windowStartSeconds, counted });
      unwritten.add(userId);
    },
    seen: (userId) => newest.peek(userId) ?? null,
    flush() {
      // One at a time, and each sees what came before it was asked for.
      const next = (writing ?? Promise.resolve()).catch(() => undefined).then(write);
      writing = next;
      return next;
    },
  };
}

function ignoreIfAway(error: unknown): void {
  if (!(error instanceof StoreAway)) throw error;
}

function batchesOf(userIds: readonly string[]): string[][] {
  const batches: string[][] = [];
  for (let start = 0; start < userIds.length; start += BATCH_USERS)
    batches.push(userIds.slice(start, start + BATCH_USERS));
  return batches;
}
