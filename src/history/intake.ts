// Rows on their way into the journal's file: those of one turn of the event loop go with one write, before any of their scans is answered.
import { createGroupWriter, type GroupWriterOptions } from './group-writer.js';
import { openGroup, type RowGroup } from './row-group.js';
import type { ScanRow } from './scan-row.js';

/** Rows that wait in memory for the disk. Each is one scan in flight; more means that the disk has stopped. */
const WAITING_BYTES = 8 * 1024 * 1024;
/** Records that could not be written are tried again by scans that come this much later, not by all of them. */
const REFUSE_MS = 1_000;

/** A row that wasn't tried: its message may be shown to clients. */
export class Refused extends Error {}

export interface IntakeOptions extends GroupWriterOptions {
  /** Bytes that wait for the database, beyond which rows are refused. */
  readonly limitBytes: number;
  /** Bytes in files that wait for the database. */
  readonly uncopiedBytes: () => number;
}

export interface Intake {
  /** Resolves when the row is in the file. Rejects, with Refused where it wasn't tried, when it isn't: then it is nowhere. */
  append(row: ScanRow): Promise<void>;
  /** Why a row would be refused now; null: it would not. */
  refusal(): string | null;
  /** A write on another thread is under way. */
  isWriting(): boolean;
  /** Takes no more rows, and resolves when those that were taken are written, or have failed. */
  close(): Promise<void>;
}

export function createIntake(options: IntakeOptions): Intake {
  const { limitBytes, uncopiedBytes } = options;
  const writer = createGroupWriter(options);
  /** Of this turn. */
  let group: RowGroup | null = null;
  /** Of a group that is written. */
  let spare: Buffer | null = null;
  let isClosed = false;

  function refusal(): string | null {
    if (isClosed) return 'The service is stopping';
    const heldBytes = writer.waitingBytes() + (group?.endBytes() ?? 0);
    if (uncopiedBytes() + heldBytes >= limitBytes) return 'The history journal is full';
    if (heldBytes >= WAITING_BYTES) return 'The disk of the history journal does not keep up';
    const failedAtMs = writer.failedAtMs();
    const hasFailed = failedAtMs !== null && Date.now() - failedAtMs < REFUSE_MS;
    return hasFailed ? 'The history journal can not be written' : null;
  }

  function endTurn(): void {
    const rows = group;
    group = null;
    if (rows === null || rows.frames.length === 0) return;
    if (writer.write(rows)) spare = rows.memory();
  }

  return {
    append(row) {
      const reason = refusal();
      if (reason !== null) return Promise.reject(new Refused(reason));
      if (group === null) {
        group = openGroup(spare);
        spare = null;
        setImmediate(endTurn);
      }
      return group.add(row);
    },
    refusal,
    isWriting: writer.isWriting,
    async close() {
      isClosed = true;
      endTurn();
      await writer.settled();
    },
  };
}
