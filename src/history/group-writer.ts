// Groups of rows into the file that is appended to: at once where the disk is quick, otherwise one after the other on another thread.
import type { Frame, RowGroup } from './row-group.js';
import { appendNow, appendTo, type Segment } from './segment.js';

/** A write that keeps the process waiting for so long says that the disk is busy: for a while another thread waits for it. */
const SLOW_WRITE_MS = 2;
const ASIDE_MS = 1_000;

export interface GroupWriterOptions {
  /** The file that is appended to, if it has room; null: another one must be begun. */
  readonly openSegment: () => Segment | null;
  readonly beginSegment: () => Promise<Segment>;
  /** A write has failed, and its file is sealed. */
  readonly onFailed: () => Promise<void>;
  /** The rows are in the file, from that byte on. */
  readonly onWritten: (segment: Segment, fromBytes: number, frames: readonly Frame[]) => void;
}

export interface GroupWriter {
  /** The promises of the rows resolve when they are in the file. True: they are there already, and their memory is free again. */
  write(rows: RowGroup): boolean;
  /** Bytes that wait for the other thread. */
  waitingBytes(): number;
  /** When the last write failed, by `Date.now`; null: it has not. */
  failedAtMs(): number | null;
  /** A write on another thread is under way. */
  isWriting(): boolean;
  /** Resolves when nothing waits any more. */
  settled(): Promise<void>;
}

export function createGroupWriter(options: GroupWriterOptions): GroupWriter {
  const { openSegment, beginSegment, onFailed, onWritten } = options;
  let waiting: RowGroup[] = [];
  let waitingBytes = 0;
  let writing: Promise<void> | null = null;
  let failedAtMs: number | null = null;
  let asideUntilMs = 0;

  /** The ordinary case: nobody waits, a file is open and the disk is quick. */
  function writeNow(rows: RowGroup): boolean {
    const startedMs = performance.now();
    const segment = openSegment();
    if (writing !== null || startedMs < asideUntilMs || segment === null) return false;
    const fromBytes = segment.endBytes;
    const isWritten = appendNow(segment, rows.bytes(), rows.frames.length);
    const endedMs = performance.now();
    if (endedMs - startedMs > SLOW_WRITE_MS) asideUntilMs = endedMs + ASIDE_MS;
    if (isWritten) written(segment, fromBytes, rows);
    return isWritten;
  }

  function written(segment: Segment, fromBytes: number, rows: RowGroup): void {
    failedAtMs = null;
    rows.resolve();
    onWritten(segment, fromBytes, rows.frames);
  }

  /** One write for all that wait, then one for all that came in the meantime. */
  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const groups = waiting;
      waiting = [];
      try {
        await appendAll(groups);
      } catch (error) {
        failedAtMs = Date.now();
        await onFailed();
        for (const rows of groups) rows.reject(error);
      }
      for (const rows of groups) waitingBytes -= rows.bytes().length;
    }
    writing = null;
  }

  async function appendAll(groups: readonly RowGroup[]): Promise<void> {
    const segment = openSegment() ?? (await beginSegment());
    let fromBytes = segment.endBytes;
    const count = groups.reduce((sum, { frames }) => sum + frames.length, 0);
    await appendTo(segment, Buffer.concat(groups.map((rows) => rows.bytes())), count);
    for (const rows of groups) {
      written(segment, fromBytes, rows);
      fromBytes += rows.bytes().length;
    }
  }

  return {
    write(rows) {
      if (writeNow(rows)) return true;
      waiting.push(rows);
      waitingBytes += rows.bytes().length;
      writing ??= writeAll();
      return false;
    },
    waitingBytes: () => waitingBytes,
    failedAtMs: () => failedAtMs,
    isWriting: () => writing !== null,
    async settled() {
      await writing;
    },
  };
}
