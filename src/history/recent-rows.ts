// Rows that were written down a moment ago, in memory as well: where the database keeps up, nothing is read back from the disk, and a row on its way is found.
import type { ScanRow } from './scan-row.js';
import type { Segment } from './segment.js';

/** A row and where it lies in its file. */
interface Recent {
  readonly segment: Segment;
  readonly row: ScanRow;
  readonly startBytes: number;
  readonly endBytes: number;
  /** For those who wait until the database has it; null: nobody does. */
  copied: Copied | null;
}

interface Copied {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

export interface RecentRows {
  /** The row was written there. It is kept while there is room for it. */
  add(segment: Segment, row: ScanRow, startBytes: number, endBytes: number): void;
  /** The next rows of a segment, at most `count`, and where the reading goes on; null: they are on the disk alone. */
  next(segment: Segment, count: number): { readonly rows: readonly ScanRow[]; readonly nextBytes: number } | null;
  /** One that the database doesn't have yet; null: it isn't here. */
  find(userId: string, id: string): ScanRow | null;
  /** Resolves when the database has all rows of the user that are here now; null: there are none. */
  copied(userId: string): Promise<void> | null;
  /** Lets go of what was copied. */
  letGo(): void;
}

/** What was copied is let go of when so many rows are done with. */
const DONE_ROWS = 256;

export function createRecentRows(limitRows: number): RecentRows {
  /** In the order in which they were written; those before `first` are done with. */
  let kept: Recent[] = [];
  let first = 0;

  function letGo(): void {
    for (let oldest = kept[first]; oldest !== undefined && isCopied(oldest); oldest = kept[first]) {
      oldest.copied?.resolve();
      first += 1;
    }
    if (first < DONE_ROWS && first < kept.length) return;
    kept = kept.slice(first);
    first = 0;
  }

  /** The newest one that the database doesn't have. */
  function lastWhere(matches: (row: ScanRow) => boolean): Recent | null {
    for (let index = kept.length - 1; index >= first; index -= 1) {
      const recent = kept[index];
      if (recent !== undefined && matches(recent.row)) return isCopied(recent) ? null : recent;
    }
    return null;
  }

  return {
    add(segment, row, startBytes, endBytes) {
      if (kept.length - first >= limitRows) letGo();
      if (kept.length - first < limitRows) kept.push({ segment, row, startBytes, endBytes, copied: null });
    },
    next(segment, count) {
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
    find: (userId, id) => lastWhere((row) => row.id === id && row.userId === userId)?.row ?? null,
    copied(userId) {
      const last = lastWhere((row) => row.userId === userId);
      if (last === null) return null;
      last.copied ??= toBeCopied();
      return last.copied.promise;
    },
    letGo,
  };
}

function toBeCopied(): Copied {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((onCopied) => {
    resolve = onCopied;
  });
  return { promise, resolve };
}

function isCopied({ endBytes, segment }: Recent): boolean {
  return endBytes <= segment.readBytes;
}
