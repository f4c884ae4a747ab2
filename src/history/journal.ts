// The journal: every row is on local disk before its scan is answered, and leaves it when the database has it.

import { mkdirSync } from 'node:fs';
import { createIntake, type Recorded } from './intake.js';
import { claimFolder } from './journal-folder.js';
import { createRecentRows } from './recent-rows.js';
import type { ScanRow } from './scan-row.js';
import {
  type Batch,
  createBatches,
  createSegments,
  type JournalReports,
  type JournalState,
  type Segments,
} from './segments.js';

/** Rows that are kept in memory as well, some 500 bytes each: half a second of a busy process. Those beyond are read back from the disk. */
const RECENT_ROWS = 8192;

export interface JournalOptions extends JournalReports {
  /** DATA_DIR/journal; other processes may have folders of their own in it. */
  readonly directory: string;
  /** Bytes that wait for the database, beyond which rows are refused; files may hold a segment more. */
  readonly limitBytes: number;
  /** Rows that are kept in memory as well; default: RECENT_ROWS. */
  readonly recentRows?: number;
  /** So many scans could not be written down, and are recorded nowhere. */
  readonly onUnwritten: (error: unknown, scans: number) => void;
}

export interface Journal {
  append(scan: Recorded): void;
  /** Why a row would be refused now; null: it would not. */
  refusal(): string | null;
  /** The oldest rows that wait, at most `count`; null when there are none. One batch at a time. */
  read(count: number): Promise<Batch | null>;
  /** A row on its way to the database; null: it isn't known here, or is there already. */
  find(userId: string, id: string): ScanRow | null;
  /** Resolves when the database has all rows of the user that are on their way now; null: there are none. */
  copied(userId: string): Promise<void> | null;
  /** Called whenever rows begin to wait, with how many do. */
  onRows(listener: (waiting: number) => void): void;
  /** Takes over what dead processes have left, and puts away what could not be put away before. */
  adopt(): Promise<void>;
  state(): JournalState;
  /** Waits for the writes that run; acts once. What waits for the database stays for the next start. */
  close(): Promise<void>;
}

/** Opens the journal with what the dead have left in it, or throws a StoreError. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  const own = await claimFolder(options.directory);
  const segments = createSegments({ ...options, own });
  const journal = createJournal(options, segments);
  await journal.adopt();
  // Now, since the first scan would wait for it.
  await segments.begin();
  return journal;
}

function createJournal(options: JournalOptions, segments: Segments): Journal {
  const recent = createRecentRows(options.recentRows ?? RECENT_ROWS);
  let notify: (waiting: number) => void = () => undefined;
  let closing: Promise<void> | null = null;

  const intake = createIntake({
    limitBytes: options.limitBytes,
    files: segments.files,
    openSegment: segments.open,
    beginSegment: segments.begin,
    onFailed: segments.discardEmpty,
    onUnwritten: options.onUnwritten,
    onRow: recent.add,
    onWritten() {
      notify(segments.arrived());
    },
  });

  async function close(): Promise<void> {
    await intake.close();
    await segments.close();
  }

  return {
    append: intake.append,
    refusal: intake.refusal,
    read: createBatches({ segments, recent, onDamage: options.onDamage, isWriting: intake.isWriting }),
    find: recent.find,
    copied: recent.copied,
    onRows(listener) {
      notify = listener;
    },
    async adopt() {
      await segments.adopt();
      if (segments.rows() > 0) notify(segments.rows());
    },
    state: segments.state,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
