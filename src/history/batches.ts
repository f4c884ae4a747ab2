// The rows of the journal on their way out: the oldest first, from memory where they are there, otherwise from the files.
import { messageOfError } from '../error-text.js';
import type { Frames } from './frames.js';
import type { Batch, JournalReports } from './journal-facts.js';
import type { RecentRows } from './recent-rows.js';
import { decodeRow, type ScanRow } from './scan-row.js';
import { isPassing, readSegment, type Segment, seal } from './segment.js';
import type { Segments } from './segments.js';

export interface BatchesOptions {
  readonly segments: Segments;
  readonly recent: RecentRows;
  readonly onDamage: JournalReports['onDamage'];
  readonly isWriting: () => boolean;
}

/** Returns what gives the oldest rows that wait, at most `count`; null when there are none. One batch at a time. */
export function createBatches({
  segments,
  recent,
  onDamage,
  isWriting,
}: BatchesOptions): (count: number) => Promise<Batch | null> {
  async function fromDisk(segment: Segment, count: number): Promise<Batch | null> {
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

  function batchOf(segment: Segment, { rows, records, nextBytes }: Read): Batch {
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

interface Read {
  readonly rows: readonly ScanRow[];
  /** Of which some may be no rows. */
  readonly records: number;
  readonly nextBytes: number;
}
