// The segments that wait for the database: this process's own and those of the dead, in the order in which they are copied; and how they go.
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOfError } from '../error-text.js';
import { makeFolder } from '../folders.js';
import {
  adoptFolders,
  claimFolder,
  createDamagedFiles,
  type JournalFolder,
  type JournalReports,
  type LeftFolder,
  segmentName,
} from './journal-folder.js';
import { decodeRow } from './scan-row.js';
import { createSegment, FRAME_MAX_BYTES, readSegment, type Segment, seal } from './segment.js';

/** A new file is begun at this size: what is replayed for nothing after a crash stays small. */
const SEGMENT_BYTES = 4 * 1024 * 1024;
/** A file of this size that is in the database as a whole is done with; smaller ones aren't worth the change. */
const DRAINED_SEGMENT_BYTES = 256 * 1024;

export interface JournalState {
  readonly rows: number;
  readonly bytes: number;
  /** Of the oldest row that waits, at most; 0 without any. */
  readonly oldestAgeMs: number;
  /** Files that could not be read as a whole, and lie there for somebody to look at. */
  readonly damagedFiles: number;
}

export type Segments = ReturnType<typeof createSegments>;

interface SegmentsOptions extends JournalReports {
  readonly directory: string;
  readonly own: JournalFolder;
}

export function createSegments({ directory, onDamage, onTransientFailure, ...options }: SegmentsOptions) {
  const segments: Segment[] = [];
  let { own } = options;
  let moving: Promise<void> | null = null;
  let current: Segment | null = null;
  let begun = 0;
  let oldestMs: number | null = null;
  const damaged = createDamagedFiles(directory);
  const left = createLeftFolders(onTransientFailure);
  /** Done with, and still there. */
  const stuck = new Set<Segment>();

  function countRows(): number {
    let rows = 0;
    for (const segment of segments) rows += segment.rows;
    return rows;
  }

  function countBytes(): number {
    let bytes = 0;
    for (const { endBytes, readBytes } of segments) bytes += endBytes - readBytes;
    return bytes;
  }

  /** Where this process writes. Another folder where somebody has removed it: what is written to a file without a name is gone with the process. */
  async function home(): Promise<string> {
    if (moving === null && !existsSync(own.path)) moving = move();
    await moving;
    return own.path;
  }

  async function move(): Promise<void> {
    try {
      await own.release().catch(() => undefined);
      makeFolder(directory);
      own = await claimFolder(directory);
    } finally {
      moving = null;
    }
  }

  /** It is done with. With the last one of a folder that was left, the folder goes. */
  async function finish(segment: Segment): Promise<void> {
    const at = segments.indexOf(segment);
    if (at !== -1) segments.splice(at, 1);
    try {
      if (segment.isDamaged) await damaged.putAside(segment.path);
      else await rm(segment.path, { force: true });
      stuck.delete(segment);
    } catch (error) {
      // It is tried again with every look for left folders. A process that reads it until then finds its rows in the database.
      if (stuck.has(segment)) return;
      stuck.add(segment);
      onDamage({ file: segment.path, bytes: 0, reason: `it can not be put away: ${messageOfError(error)}` });
      return;
    }
    await left.leave(dirname(segment.path), [...segments, ...stuck]);
  }

  return {
    /** Rows that wait for the database. */
    rows: countRows,
    bytes: countBytes,
    /** The one that is appended to, if it has room. */
    open(): Segment | null {
      if (current === null) return null;
      const { descriptor, readBytes, endBytes, isDamaged } = current;
      const isDrained = readBytes === endBytes && endBytes >= DRAINED_SEGMENT_BYTES;
      const isElsewhere = !current.path.startsWith(own.path);
      return descriptor === null || endBytes >= SEGMENT_BYTES || isDamaged || isDrained || isElsewhere ? null : current;
    },
    /** Another one in its place. */
    async begin(): Promise<Segment> {
      if (current !== null) await seal(current);
      begun += 1;
      current = await createSegment(join(await home(), segmentName(begun)));
      segments.push(current);
      return current;
    },
    /** It is this process's last one. */
    isCurrent: (segment: Segment) => segment === current,
    /** The first one with something to copy, or sealed and to be finished. */
    next: () => segments.find(({ readBytes, endBytes, descriptor }) => readBytes < endBytes || descriptor === null),
    finish,
    /** A write has failed, and its segment is sealed. With nothing in it that waits it goes at once: a full disk would get one more with each try. */
    async discardEmpty(): Promise<void> {
      const last = segments.find((one) => one === current);
      if (last !== undefined && last.descriptor === null && last.readBytes === last.endBytes) await finish(last);
    },
    /** Whether the longest row could be written, as tried beside the segments. */
    async isWritable(): Promise<boolean> {
      let path = '';
      try {
        path = join(await home(), 'trial');
        await writeFile(path, Buffer.alloc(FRAME_MAX_BYTES));
        await rm(path);
        return true;
      } catch {
        await rm(path, { force: true }).catch(() => undefined);
        return false;
      }
    },
    /** Rows have come. */
    arrived(): void {
      oldestMs ??= Date.now();
    },
    /** All rows up to one of that time are copied, or can't be; null: nobody knows the time. */
    copied(untilMs: number | null): void {
      oldestMs = countRows() > 0 ? (untilMs ?? oldestMs) : null;
    },
    async adopt(): Promise<void> {
      await home();
      damaged.recount();
      for (const segment of [...stuck]) await finish(segment);
      const held = new Set([own.path, ...left.paths()]);
      const adopted = await adoptFolders(directory, held, { damaged, onDamage, onTransientFailure });
      for (const folder of adopted) {
        left.add(folder);
        segments.push(...folder.segments);
        oldestMs = Math.min(oldestMs ?? Date.now(), await timeOfFirst(folder.segments));
      }
    },
    state(): JournalState {
      const rows = countRows();
      const oldestAgeMs = rows === 0 || oldestMs === null ? 0 : Math.max(0, Date.now() - oldestMs);
      return { rows, bytes: countBytes(), oldestAgeMs, damagedFiles: damaged.count };
    },
    /** Finishes what is copied, and gives the folders back. */
    async close(): Promise<void> {
      if (current !== null) await seal(current);
      for (const segment of segments.filter((one) => one.readBytes === one.endBytes)) await finish(segment);
      await left.release();
      await own.release();
    },
  };
}

/** Folders of dead processes that this one has taken over. */
function createLeftFolders(onTransientFailure: JournalReports['onTransientFailure']) {
  const left = new Map<string, LeftFolder>();
  return {
    paths: () => left.keys(),
    add: (folder: LeftFolder) => void left.set(folder.path, folder),
    /** The folder goes with its last segment. */
    async leave(path: string, segments: readonly Segment[]): Promise<void> {
      const done = left.get(path);
      if (done === undefined || segments.some((segment) => dirname(segment.path) === path)) return;
      left.delete(path);
      try {
        await done.remove();
      } catch (error) {
        onTransientFailure({ file: path, reason: messageOfError(error) });
      }
    },
    async release(): Promise<void> {
      for (const folder of left.values()) await folder.release();
    },
  };
}

async function timeOfFirst(segments: readonly Segment[]): Promise<number> {
  const [segment] = segments;
  if (segment === undefined || segment.endBytes === 0) return Date.now();
  // The same file is read again for its rows: that read reports what is wrong with it.
  const [payload = ''] = await readSegment(segment, 0, 1).then(
    ({ payloads }) => payloads,
    () => [],
  );
  return decodeRow(payload)?.lastUpdateMs ?? Date.now();
}
