// The journal: every row is on local disk before its scan is answered, and leaves it when the database has it. Rows that were written down a
// moment ago are in memory as well: where the database keeps up, nothing is read back from the disk, and a row on its way is found.
import { messageOfError } from '../error-text.js';
import { makeFolder } from '../paths.js';
import { later } from '../waiting/within.js';
import { createIntake } from './intake.js';
import { decodeRow, type ScanRow } from './scan-row.js';
import { type Frames, isPassing, readSegment, type Segment, seal } from './segment.js';
import { claimFolder, createSegments, type JournalReports, type Segments } from './segments.js';

/** Rows that are kept in memory as well, some 500 bytes each: half a second of a busy process. Those beyond are read back from the disk. */
const RECENT_ROWS = 8192;

interface JournalOptions extends JournalReports {
  /** DATA_DIR/journal; other processes may have folders of their own in it. */
  readonly directory: string;
  /** Bytes that wait for the database, beyond which rows are refused; files may hold a segment more. */
  readonly limitBytes: number;
  /** Rows that are kept in memory as well; default: RECENT_ROWS. */
  readonly recentRows?: number;
  /** So many scans could not be written down, and are recorded nowhere. */
  readonly onUnwritten: (error: unknown, scans: number) => void;
}

export type Journal = ReturnType<typeof createJournal>;

/** Opens the journal with what the dead have left in it, or throws a StoreError. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  makeFolder(options.directory);
  const own = await claimFolder(options.directory);
  const segments = createSegments({ ...options, own });
  const journal = createJournal(options, segments);
  await journal.adopt();
  // Now, since the first scan would wait for it.
  await segments.begin();
  return journal;
}

function createJournal(options: JournalOptions, segments: Segments) {
  const recent = createRecentRows(options.recentRows ?? RECENT_ROWS);
  let closing: Promise<void> | null = null;

  const intake = createIntake({
    limitBytes: options.limitBytes,
    segments,
    onUnwritten: options.onUnwritten,
    onRow: recent.add,
  });

  return {
    append: intake.append,
    refusal: intake.refusal,
    read: createBatches(segments, recent, options.onDamage, intake.isWriting),
    find: recent.find,
    copied: recent.copied,
    waiting: segments.waiting,
    onRows: segments.onRows,
    /** Takes over what dead processes have left, and puts away what could not be put away before. */
    adopt: segments.adopt,
    state: segments.state,
    /** Waits for the writes that run; acts once. What waits for the database stays for the next start. */
    close(): Promise<void> {
      closing ??= intake.close().then(() => segments.close());
      return closing;
    },
  };
}

/** A row and where it lies in its file. */
interface Recent {
  readonly segment: Segment;
  readonly row: ScanRow;
  readonly startBytes: number;
  readonly endBytes: number;
  /** For those who wait until the database has it; null: nobody does. */
  copied: ReturnType<typeof later<void>> | null;
}

type RecentRows = ReturnType<typeof createRecentRows>;

/** What was copied is let go of when so many rows are done with. */
const DONE_ROWS = 256;

function createRecentRows(limitRows: number) {
  /** In the order in which they were written; those before `first` are done with. */
  let kept: Recent[] = [];
  let first = 0;

  function letGo(): void {
    for (let oldest = kept[first]; oldest !== undefined; oldest = kept[first]) {
      if (oldest.endBytes > oldest.segment.readBytes) break;
      oldest.copied?.resolve();
      first += 1;
    }
    if (first < DONE_ROWS && first < kept.length) return;
    kept = kept.slice(first);
    first = 0;
  }

  /** The newest one that the database doesn't have. */
  function lastWhere(matches: (row: ScanRow) => boolean): Recent | null {
    letGo();
    for (let index = kept.length - 1; index >= first; index -= 1) {
      const recent = kept[index];
      if (recent !== undefined && matches(recent.row)) return recent;
    }
    return null;
  }

  return {
    /** The row was written there. It is kept while there is room for it. */
    add(segment: Segment, row: ScanRow, startBytes: number, endBytes: number): void {
      if (kept.length - first >= limitRows) letGo();
      if (kept.length - first < limitRows) kept.push({ segment, row, startBytes, endBytes, copied: null });
    },
    /** The next rows of a segment, at most `count`, and where the reading goes on; null: they are on the disk alone. */
    next(segment: Segment, count: number): { readonly rows: readonly ScanRow[]; readonly nextBytes: number } | null {
      letGo();
      const rows: ScanRow[] = [];
      let atBytes = segment.readBytes;
      for (let index = first; index < kept.length && rows.length < count; index += 1) {
        const recent = kept[index];
        if (recent?.segment !== segment || recent.startBytes !== atBytes) break;
        rows.push(recent.row);
        atBytes = recent.endBytes;
      }
      return rows.length === 0 ? null : { rows, nextBytes: atBytes };
    },
    /** One that is on its way to the database; null: it isn't known here, or is there already. */
    find: (userId: string, id: string): ScanRow | null =>
      lastWhere((row) => row.id === id && row.userId === userId)?.row ?? null,
    /** Resolves when the database has all rows of the user that are here now; null: there are none. */
    copied(userId: string): Promise<void> | null {
      const last = lastWhere((row) => row.userId === userId);
      if (last === null) return null;
      last.copied ??= later();
      return last.copied.promise;
    },
    letGo,
  };
}

interface RowBatch {
  readonly rows: readonly ScanRow[];
  /** The database has them. Does nothing when it was said of these rows before, by this batch or another one. */
  commit(): void;
}

/** Returns what gives the oldest rows that wait, at most `count`; null when there are none. One batch at a time. */
function createBatches(
  segments: Segments,
  recent: RecentRows,
  onDamage: JournalReports['onDamage'],
  isWriting: () => boolean,
): (count: number) => Promise<RowBatch | null> {
  async function fromDisk(segment: Segment, count: number): Promise<RowBatch | null> {
    const frames = await readOrGiveUp(segment, count);
    if (frames === null) return null;
    const { payloads, damagedBytes, nextBytes } = frames;
    const rows = payloads.map(decodeRow).filter((row) => row !== null);
    if (damagedBytes > 0 || rows.length < payloads.length) {
      segment.isDamaged = true;
      const reason = damagedBytes > 0 ? 'bytes that are no record' : 'a record of another shape';
      onDamage({ file: segment.path, bytes: damagedBytes, reason });
    }
    const batch = batchOf(segment, { rows, records: payloads.length, nextBytes: segment.readBytes + nextBytes });
    if (rows.length > 0) return batch;
    batch.commit();
    return null;
  }

  /** Null: the segment can't be read; it is done with, and what is behind it comes next. */
  async function readOrGiveUp(segment: Segment, count: number): Promise<Frames | null> {
    try {
      return await readSegment(segment, segment.readBytes, count);
    } catch (error) {
      if (isPassing(error)) throw error;
      const bytes = segment.endBytes - segment.readBytes;
      onDamage({ file: segment.path, bytes, reason: messageOfError(error) });
    }
    segment.isDamaged = true;
    segment.readBytes = segment.endBytes;
    segment.rows = 0;
    segments.copied(null);
    // One that is being written to is sealed by the next write.
    if (!segments.isCurrent(segment) || !isWriting()) await seal(segment).catch(() => undefined);
    return null;
  }

  function batchOf(segment: Segment, { rows, records, nextBytes }: ReadRows): RowBatch {
    const fromBytes = segment.readBytes;
    return {
      rows,
      commit() {
        if (segment.readBytes !== fromBytes) return;
        segment.readBytes = nextBytes;
        // Records that were counted once may have become unreadable since.
        segment.rows = nextBytes === segment.endBytes ? 0 : Math.max(0, segment.rows - records);
        // What is behind it was decided later.
        segments.copied(rows.at(-1)?.lastUpdateMs ?? null);
        recent.letGo();
      },
    };
  }

  return async (count) => {
    for (let segment = segments.next(); segment !== undefined; segment = segments.next()) {
      if (segment.readBytes === segment.endBytes) {
        await segments.finish(segment);
        continue;
      }
      const known = recent.next(segment, count);
      if (known !== null) return batchOf(segment, { ...known, records: known.rows.length });
      const batch = await fromDisk(segment, count);
      if (batch !== null) return batch;
    }
    return null;
  };
}

interface ReadRows {
  readonly rows: readonly ScanRow[];
  /** Of which some may be no rows. */
  readonly records: number;
  readonly nextBytes: number;
}
