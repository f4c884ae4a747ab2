// The journal: every row is on local disk before its scan is answered, and leaves it when the database has it.
import { mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOfError } from '../store/store-error.js';
import { createDamagedFiles } from './damaged-files.js';
import { type Frames, frame } from './frames.js';
import { adoptFolders, claimFolder, type JournalFolder, type LeftFolder, segmentName } from './journal-folder.js';
import { decodeRow, encodeRow, type ScanRow } from './scan-row.js';
import { appendNow, appendTo, createSegment, isPassing, readSegment, type Segment, seal } from './segment.js';

/** A new file is begun at this size: what is replayed for nothing after a crash stays small. */
const SEGMENT_BYTES = 4 * 1024 * 1024;
/** A file of this size that is in the database as a whole is done with; smaller ones aren't worth the change. */
const DRAINED_SEGMENT_BYTES = 256 * 1024;
/** Rows that wait in memory for the disk. Each is one scan in flight; more means that the disk has stopped. */
const WAITING_BYTES = 8 * 1024 * 1024;
/** Records that could not be written are tried again by scans that come this much later, not by all of them. */
const REFUSE_MS = 1_000;
/** A write that keeps the process waiting for so long says that the disk is busy: for a while another thread waits for it. */
const SLOW_WRITE_MS = 2;
const ASIDE_MS = 1_000;

export interface JournalOptions {
  /** DATA_DIR/journal; other processes may have folders of their own in it. */
  readonly directory: string;
  /** Bytes that wait for the database, beyond which rows are refused; files may hold a segment more. */
  readonly limitBytes: number;
  /** Told of damage: nothing is lost in silence. */
  readonly onDamage: (damage: Damage) => void;
  /** Told of what can't be taken over or put away now, and is tried again with the next look for the dead. */
  readonly onHindered: (hindrance: Hindrance) => void;
}

export interface Damage {
  readonly file: string;
  /** In which there may have been rows. */
  readonly bytes: number;
  readonly reason: string;
}

export interface Hindrance {
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

export interface Journal {
  /** Resolves when the row is in the file. Rejects, with Refused where it wasn't tried, when it isn't: then it is nowhere. */
  append(row: ScanRow): Promise<void>;
  /** Why a row would be refused now; null: it would not. */
  refusal(): string | null;
  /** The oldest rows that wait, at most `count`; null when there are none. One batch at a time. */
  read(count: number): Promise<Batch | null>;
  /** Called whenever rows begin to wait. */
  onRows(listener: () => void): void;
  /** Takes over what dead processes have left, and puts away what could not be put away before. */
  adopt(): Promise<void>;
  state(): JournalState;
  /** Waits for the writes that run; acts once. What waits for the database stays for the next start. */
  close(): Promise<void>;
}

interface Waiting {
  readonly bytes: Buffer;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** A row that wasn't tried: its message may be shown to clients. */
export class Refused extends Error {}

/** Opens the journal with what the dead have left in it, or throws a StoreError. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  const own = await claimFolder(options.directory);
  const journal = createJournal(options, own);
  await journal.adopt();
  return journal;
}

function createJournal({ directory, limitBytes, onDamage, onHindered }: JournalOptions, own: JournalFolder): Journal {
  /** In the order in which they are copied; the one that is appended to is the last of our own. */
  let segments: Segment[] = [];
  const left = new Map<string, LeftFolder>();
  /** Done with, and still there. */
  const stuck = new Set<Segment>();
  const damaged = createDamagedFiles(directory);
  let current: Segment | null = null;
  let segmentNumber = 0;
  let waiting: Waiting[] = [];
  let waitingBytes = 0;
  let writing: Promise<void> | null = null;
  let oldestMs: number | null = null;
  let failure: { readonly message: string; readonly atMs: number } | null = null;
  let asideUntilMs = 0;
  let isClosed = false;
  let notify: () => void = () => undefined;

  const uncopiedBytes = (): number => segments.reduce((sum, { endBytes, readBytes }) => sum + endBytes - readBytes, 0);

  function refusal(): string | null {
    if (isClosed) return 'The service is stopping';
    if (uncopiedBytes() + waitingBytes >= limitBytes) return 'The history journal is full';
    if (waitingBytes >= WAITING_BYTES) return 'The disk of the history journal does not keep up';
    return failure !== null && Date.now() - failure.atMs < REFUSE_MS ? failure.message : null;
  }

  /** The ordinary case: nobody waits, a file is open and the disk is quick, so the row is in the file at once. */
  function writeNow(bytes: Buffer): boolean {
    const startedMs = performance.now();
    if (writing !== null || startedMs < asideUntilMs || current === null || isFull(current)) return false;
    const isWritten = appendNow(current, bytes);
    const endedMs = performance.now();
    if (endedMs - startedMs > SLOW_WRITE_MS) asideUntilMs = endedMs + ASIDE_MS;
    if (isWritten) written();
    return isWritten;
  }

  function written(): void {
    failure = null;
    oldestMs ??= Date.now();
    notify();
  }

  /** One write for all that wait, then one for all that came in the meantime. */
  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const group = waiting;
      const bytes =
        group.length === 1 ? (group[0]?.bytes ?? Buffer.alloc(0)) : Buffer.concat(group.map((one) => one.bytes));
      waiting = [];
      try {
        await appendTo(await segmentFor(), bytes, group.length);
        for (const { resolve } of group) resolve();
        written();
      } catch (error) {
        failure = { message: 'The history journal can not be written', atMs: Date.now() };
        await discardEmpty();
        for (const { reject } of group) reject(error);
      }
      waitingBytes -= bytes.length;
    }
    writing = null;
  }

  /** A write that failed has sealed its file. With nothing in it that waits it goes at once: a full disk would get one more with each try. */
  async function discardEmpty(): Promise<void> {
    const last = segments.find((one) => one === current);
    if (last !== undefined && last.descriptor === null && last.readBytes === last.endBytes) await finish(last);
  }

  async function segmentFor(): Promise<Segment> {
    if (current !== null && !isFull(current)) return current;
    if (current !== null) await seal(current);
    segmentNumber += 1;
    current = await createSegment(join(own.path, segmentName(segmentNumber)));
    segments.push(current);
    return current;
  }

  async function read(count: number): Promise<Batch | null> {
    for (;;) {
      const segment = segments.find(
        ({ readBytes, endBytes, descriptor }) => readBytes < endBytes || descriptor === null,
      );
      if (segment === undefined) return null;
      if (segment.readBytes === segment.endBytes) {
        await finish(segment);
        continue;
      }
      const frames = await readOrGiveUp(segment, count);
      if (frames === null) continue;
      const rows = frames.payloads.map(decodeRow).filter((row) => row !== null);
      if (frames.damagedBytes > 0 || rows.length < frames.payloads.length) {
        segment.isDamaged = true;
        const reason = frames.damagedBytes > 0 ? 'bytes that are no record' : 'a record of another shape';
        onDamage({ file: segment.path, bytes: frames.damagedBytes, reason });
      }
      const commit = committer(segment, frames.payloads.length, segment.readBytes + frames.nextBytes, rows.at(-1));
      if (rows.length > 0) return { rows, commit };
      commit();
    }
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
    if (segments.every(({ rows }) => rows === 0)) oldestMs = null;
    // One that is being written to is sealed by the next write.
    if (segment !== current || writing === null) await seal(segment).catch(() => undefined);
    return null;
  }

  function committer(segment: Segment, records: number, nextBytes: number, last: ScanRow | undefined): () => void {
    const fromBytes = segment.readBytes;
    return () => {
      if (segment.readBytes !== fromBytes) return;
      segment.readBytes = nextBytes;
      // Records that were counted once may have become unreadable since.
      segment.rows = nextBytes === segment.endBytes ? 0 : Math.max(0, segment.rows - records);
      // What is behind it was decided later.
      oldestMs = segments.some(({ rows }) => rows > 0) ? (last?.lastUpdateMs ?? oldestMs) : null;
    };
  }

  /** A sealed segment that is in the database. With the last one of a folder that was left, the folder goes. */
  async function finish(segment: Segment): Promise<void> {
    segments = segments.filter((one) => one !== segment);
    try {
      if (segment.isDamaged) await damaged.putAside(segment.path);
      else await rm(segment.path, { force: true });
      stuck.delete(segment);
    } catch (error) {
      // It is tried again with every look for left folders; whoever reads it until then finds its rows in the database.
      if (stuck.has(segment)) return;
      stuck.add(segment);
      onDamage({ file: segment.path, bytes: 0, reason: `it can not be put away: ${messageOfError(error)}` });
      return;
    }
    await leaveFolder(dirname(segment.path));
  }

  /** One that was left goes with its last segment. */
  async function leaveFolder(folder: string): Promise<void> {
    const done = left.get(folder);
    if (done === undefined || [...segments, ...stuck].some(({ path }) => dirname(path) === folder)) return;
    left.delete(folder);
    try {
      await done.remove();
    } catch (error) {
      onHindered({ file: folder, reason: messageOfError(error) });
    }
  }

  return {
    append(row) {
      const reason = refusal();
      if (reason !== null) return Promise.reject(new Refused(reason));
      const bytes = frame(encodeRow(row));
      if (writeNow(bytes)) return Promise.resolve();
      waitingBytes += bytes.length;
      return new Promise((resolve, reject) => {
        waiting.push({ bytes, resolve, reject });
        writing ??= writeAll();
      });
    },
    refusal,
    read,
    onRows(listener) {
      notify = listener;
    },
    async adopt() {
      damaged.recount();
      for (const segment of [...stuck]) await finish(segment);
      const adopted = await adoptFolders(directory, {
        held: new Set([own.path, ...left.keys()]),
        async isPutAside(file) {
          if (!damaged.isNoted(file)) return false;
          await damaged.putAside(file).catch(() => undefined);
          return true;
        },
        async onUnreadable(file, error) {
          onDamage({ file, bytes: 0, reason: messageOfError(error) });
          await damaged.putAside(file).catch((failed: unknown) => {
            onDamage({ file, bytes: 0, reason: `it can not be put away: ${messageOfError(failed)}` });
          });
        },
        onFolder(path, error) {
          if (error === null) damaged.forget(path);
          else if (damaged.note(path)) onDamage({ file: path, bytes: 0, reason: messageOfError(error) });
        },
        onHindered: (file, error) => onHindered({ file, reason: messageOfError(error) }),
      });
      for (const folder of adopted) {
        left.set(folder.path, folder);
        segments.push(...folder.segments);
        oldestMs = Math.min(oldestMs ?? Date.now(), await timeOfFirst(folder.segments));
      }
      if (segments.some(({ rows }) => rows > 0)) notify();
    },
    state() {
      const rows = segments.reduce((sum, segment) => sum + segment.rows, 0);
      return {
        rows,
        bytes: uncopiedBytes(),
        oldestAgeMs: rows === 0 || oldestMs === null ? 0 : Math.max(0, Date.now() - oldestMs),
        damagedFiles: damaged.count,
      };
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      await writing;
      if (current !== null) await seal(current);
      for (const segment of segments.filter((one) => one.readBytes === one.endBytes)) await finish(segment);
      for (const folder of left.values()) await folder.release();
      await own.release();
    },
  };
}

/** Nothing more is appended to it. */
function isFull({ descriptor, readBytes, endBytes, isDamaged }: Segment): boolean {
  if (descriptor === null || endBytes >= SEGMENT_BYTES || isDamaged) return true;
  return readBytes === endBytes && endBytes >= DRAINED_SEGMENT_BYTES;
}

async function timeOfFirst(segments: readonly Segment[]): Promise<number> {
  const [segment] = segments;
  if (segment === undefined || segment.endBytes === 0) return Date.now();
  // The same file is read again for its rows: what is wrong with it is told then.
  const [payload = ''] = await readSegment(segment, 0, 1).then(
    ({ payloads }) => payloads,
    () => [],
  );
  return decodeRow(payload)?.lastUpdateMs ?? Date.now();
}
