// Rows that were written down a moment ago, in memory as well: where the database keeps up, nothing is read back from the disk.
import type { ScanRow } from './scan-row.js';
import type { Segment } from './segment.js';

/** A row and where it lies in its file. */
interface Recent {
  readonly segment: Segment;
  readonly row: ScanRow;
  readonly startBytes: number;
  readonly endBytes: number;
}

export interface RecentRows {
  /** The row was written there. It is kept while there is room for it. */
  add(recent: Recent): void;
  /** The next rows of a segment, at most `count`, and where the reading goes on; null: they are on the disk alone. */
  next(segment: Segment, count: number): { readonly rows: readonly ScanRow[]; readonly nextBytes: number } | null;
}

/** What was copied is let go of when so many rows are done with. */
const DONE_ROWS = 256;

export function createRecentRows(limitRows: number): RecentRows {
  /** In the order in which they were written; those before `first` are done with. */
  let kept: Recent[] = [];
  let first = 0;

  function letGo(): void {
    while (first < kept.length && isCopied(kept[first])) first += 1;
    if (first < DONE_ROWS && first < kept.length) return;
    kept = kept.slice(first);
    first = 0;
  }

  return {
    add(recent) {
      if (kept.length - first >= limitRows) letGo();
      if (kept.length - first < limitRows) kept.push(recent);
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
  };
}

function isCopied(recent: Recent | undefined): boolean {
  return recent !== undefined && recent.endBytes <= recent.segment.readBytes;
}
