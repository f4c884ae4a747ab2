// What the journal hands out and says of itself: the shapes that its parts share.
import type { ScanRow } from './scan-row.js';

export interface JournalReports {
  /** Called for each damage, so that every loss is reported. */
  readonly onDamage: (damage: Damage) => void;
  /** Called for what can't be taken over or put away now. It is tried again with the next look for folders of dead processes. */
  readonly onTransientFailure: (failure: TransientFailure) => void;
}

export interface Damage {
  readonly file: string;
  /** In which there may have been rows. */
  readonly bytes: number;
  readonly reason: string;
}

export interface TransientFailure {
  readonly file: string;
  readonly reason: string;
}

export interface JournalState {
  readonly rows: number;
  readonly bytes: number;
  /** Of the oldest row that waits, at most; 0 without any. */
  readonly oldestAgeMs: number;
  /** Files that could not be read as a whole, and lie there for somebody to look at. */
  readonly damagedFiles: number;
}

export interface Batch {
  readonly rows: readonly ScanRow[];
  /** The database has them. Does nothing when it was said of these rows before, by this batch or another one. */
  commit(): void;
}
