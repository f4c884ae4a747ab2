// Rows that go into the file with one write: their records behind each other, and one promise for all.
import { FRAME_MAX_BYTES, writeFrame } from './frames.js';
import { encodeRow, type ScanRow, storableRow } from './scan-row.js';

/** A row and how long its record is. */
export interface Frame {
  readonly row: ScanRow;
  readonly bytes: number;
}

export interface RowGroup {
  readonly frames: readonly Frame[];
  /** Resolves, as for all rows of the group, when they are in the file. Rejects with RangeError for a row that is too long. */
  add(row: ScanRow): Promise<void>;
  /** The records of all rows. */
  bytes(): Buffer;
  endBytes(): number;
  /** What the records lie in, for another group when this one is written. */
  memory(): Buffer;
  resolve(): void;
  reject(error: unknown): void;
}

/** Room for the rows of an ordinary turn. */
const FIRST_BYTES = 4 * FRAME_MAX_BYTES;

/** `memory`: of a group that is written. */
export function openGroup(memory: Buffer | null): RowGroup {
  const frames: Frame[] = [];
  let buffer = memory ?? Buffer.allocUnsafe(FIRST_BYTES);
  let endBytes = 0;
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const written = new Promise<void>((onWritten, onFailed) => {
    resolve = onWritten;
    reject = onFailed;
  });

  function makeRoom(): void {
    if (buffer.length - endBytes >= FRAME_MAX_BYTES) return;
    const larger = Buffer.allocUnsafe(2 * buffer.length);
    buffer.copy(larger, 0, 0, endBytes);
    buffer = larger;
  }

  return {
    frames,
    add(given) {
      const row = storableRow(given);
      makeRoom();
      try {
        const nextBytes = writeFrame(buffer, endBytes, encodeRow(row));
        frames.push({ row, bytes: nextBytes - endBytes });
        endBytes = nextBytes;
        return written;
      } catch (error) {
        return Promise.reject(error);
      }
    },
    bytes: () => buffer.subarray(0, endBytes),
    endBytes: () => endBytes,
    memory: () => buffer,
    resolve: () => resolve(),
    reject: (error) => reject(error),
  };
}
