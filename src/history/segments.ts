// The segments that wait for the database: this process's own and those of the dead, in the order in which they are copied; and how they go. Each process has a folder,
// locked while it lives; what a dead one left is taken over.
import { randomBytes } from 'node:crypto';
import { readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, messageOfError } from '../error-text.js';
import { isGone, makeFolder } from '../paths.js';
import { tryLock } from '../store/data-lock.js';
import { StoreError } from '../store/store-error.js';
import { decodeRow } from './scan-row.js';
import {
  createDamagedFiles,
  createSegment,
  FRAME_MAX_BYTES,
  findSegment,
  isPassing,
  readSegment,
  type Segment,
  seal,
} from './segment.js';

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

export function createSegments({ directory, own, onDamage, onTransientFailure }: SegmentsOptions) {
  const segments: Segment[] = [];
  let current: Segment | null = null;
  let begun = 0;
  const home = createHome(directory, own);
  const { waiting, onRows, count, copied, found, state } = createWaitingRows(segments);
  const damaged = createDamagedFiles(directory);
  const left = createLeftFolders(onTransientFailure);
  const { finish, finishStuck } = createFinishing({ segments, damaged, left, onDamage, onTransientFailure });

  return {
    /** Rows that wait for the database, and their bytes. */
    waiting,
    onRows,
    arrived: count,
    /** The one that is appended to, if it has room. */
    open(): Segment | null {
      if (current === null) return null;
      const { descriptor, readBytes, endBytes, isDamaged } = current;
      const isDrained = readBytes === endBytes && endBytes >= DRAINED_SEGMENT_BYTES;
      const isElsewhere = !current.path.startsWith(home.own.path);
      return descriptor === null || endBytes >= SEGMENT_BYTES || isDamaged || isDrained || isElsewhere ? null : current;
    },
    /** Another one in its place. */
    async begin(): Promise<Segment> {
      if (current !== null) await seal(current);
      begun += 1;
      current = await createSegment(join(await home.path(), segmentName(begun)));
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
    isWritable: home.isWritable,
    copied,
    async adopt(): Promise<void> {
      await home.path();
      damaged.recount();
      await finishStuck();
      const held = new Set([home.own.path, ...left.paths()]);
      const adopted = await adoptFolders(directory, held, { damaged, onDamage, onTransientFailure });
      for (const folder of adopted) {
        left.add(folder);
        segments.push(...folder.segments);
        found(await timeOfFirst(folder.segments));
      }
      count();
    },
    state: (): JournalState => ({ ...state(), damagedFiles: damaged.count }),
    /** Finishes what is copied, and gives the folders back. */
    async close(): Promise<void> {
      if (current !== null) await seal(current);
      for (const segment of segments.filter((one) => one.readBytes === one.endBytes)) await finish(segment);
      await left.release();
      // Where it can't be removed it is one of the dead, which the next process takes over.
      await home.own.release().catch(() => undefined);
    },
  };
}

/** Where this process writes. Another folder where somebody has removed it: what is written to a file without a name is gone with the process. */
function createHome(directory: string, first: JournalFolder) {
  let moving: Promise<void> | null = null;

  async function path(): Promise<string> {
    if (moving === null && isGone(home.own.path)) moving = move();
    await moving;
    return home.own.path;
  }

  async function move(): Promise<void> {
    try {
      makeFolder(directory);
      const next = await claimFolder(directory);
      await home.own.release().catch(() => undefined);
      home.own = next;
    } finally {
      moving = null;
    }
  }

  const home = {
    own: first,
    path,
    /** Whether the longest row could be written, as tried beside the segments. */
    async isWritable(): Promise<boolean> {
      let trial = '';
      try {
        trial = join(await path(), 'trial');
        await writeFile(trial, Buffer.alloc(FRAME_MAX_BYTES));
        await rm(trial);
        return true;
      } catch {
        await rm(trial, { force: true }).catch(() => undefined);
        return false;
      }
    },
  };
  return home;
}

/** What of the segments waits for the database. */
function createWaitingRows(segments: readonly Segment[]) {
  /** As of the last change: each scan asks for it. */
  const waiting = { rows: 0, bytes: 0 };
  let oldestMs: number | null = null;
  let awaited = { rows: Number.POSITIVE_INFINITY, tell: (): void => undefined };

  /** Rows have come or gone. */
  function count(): void {
    waiting.rows = 0;
    waiting.bytes = 0;
    for (const { rows, endBytes, readBytes } of segments) {
      waiting.rows += rows;
      waiting.bytes += endBytes - readBytes;
    }
    oldestMs = waiting.rows === 0 ? null : (oldestMs ?? Date.now());
    if (waiting.rows >= awaited.rows) awaited.tell();
  }

  return {
    waiting,
    /** `tell` is called whenever rows have come and so many wait; in the place of what was given before. */
    onRows(rows: number, tell: () => void): void {
      awaited = { rows, tell };
    },
    count,
    /** All up to one of that time are copied, or can't be; null: nobody knows the time. */
    copied(untilMs: number | null): void {
      oldestMs = untilMs ?? oldestMs;
      count();
    },
    /** Some were found, the oldest one of that time. */
    found(sinceMs: number): void {
      oldestMs = Math.min(oldestMs ?? Date.now(), sinceMs);
    },
    state: () => ({ ...waiting, oldestAgeMs: oldestMs === null ? 0 : Math.max(0, Date.now() - oldestMs) }),
  };
}

interface FinishingParts extends JournalReports {
  readonly segments: Segment[];
  readonly damaged: ReturnType<typeof createDamagedFiles>;
  readonly left: ReturnType<typeof createLeftFolders>;
}

function createFinishing({ segments, damaged, left, onDamage, onTransientFailure }: FinishingParts) {
  /** Done with, and still there. */
  const stuck = new Set<Segment>();

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
      const failure = { file: segment.path, reason: `it can not be put away: ${messageOfError(error)}` };
      // A file that is in the database as a whole is not damaged because it can't be removed.
      if (segment.isDamaged) onDamage({ ...failure, bytes: 0 });
      else onTransientFailure(failure);
      return;
    }
    await left.leave(dirname(segment.path), [...segments, ...stuck]);
  }

  return {
    finish,
    async finishStuck(): Promise<void> {
      for (const segment of [...stuck]) await finish(segment);
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

/** A folder gets its name once it is locked, so nobody ever sees one without its owner. */
const OWNER = /^[0-9a-f]{16}$/;
const UNFINISHED = /^new-[0-9a-f]{16}$/;
const SEGMENT = /^\d{9}\.log$/;
/** An unfinished folder gets its name within milliseconds. One of this age belongs to a process that died. */
const UNFINISHED_MAX_AGE_MS = 3_600_000;

export interface JournalFolder {
  readonly path: string;
  /** Gives the lock back; an empty folder goes with it. */
  release(): Promise<void>;
}

export interface LeftFolder extends JournalFolder {
  readonly segments: readonly Segment[];
  /** Gives the lock back and removes the folder, unless a segment is still in it that could not be put aside. */
  remove(): Promise<void>;
}

export interface JournalReports {
  /** Called for each damage, so that every loss is reported. */
  readonly onDamage: (damage: Damage) => void;
  /** Called for what can't be taken over or put away now. It is tried again with the next look for folders of dead processes. */
  readonly onTransientFailure: (failure: TransientFailure) => void;
}

export interface TransientFailure {
  readonly file: string;
  readonly reason: string;
}

export interface Damage extends TransientFailure {
  /** In which there may have been rows. */
  readonly bytes: number;
}

interface Adoption extends JournalReports {
  readonly damaged: ReturnType<typeof createDamagedFiles>;
}

/** Makes this process's own folder below `directory`, or throws a StoreError. */
export async function claimFolder(directory: string): Promise<JournalFolder> {
  const suffix = randomBytes(8).toString('hex');
  const unfinished = join(directory, `new-${suffix}`);
  const path = join(directory, suffix);
  try {
    makeFolder(unfinished);
    const lock = await tryLock(unfinished, suffix);
    if (!lock.locked) throw new Error(`it belongs to the process ${lock.owner}`);
    try {
      renameSync(unfinished, path);
    } catch (error) {
      await lock.release();
      throw error;
    }
    return { path, release: () => removeAndRelease(path, lock.release) };
  } catch (error) {
    throw new StoreError(`The journal ${directory} can't be written: ${messageOfError(error)}`);
  }
}

/**
 * Takes over the folders of processes that have died, but for those of `held`. Those without segments are removed. A folder that can't be taken over
 * doesn't stop the others.
 */
export async function adoptFolders(
  directory: string,
  held: ReadonlySet<string>,
  adoption: Adoption,
): Promise<LeftFolder[]> {
  const { damaged, onDamage, onTransientFailure } = adoption;
  const adopted: LeftFolder[] = [];
  for (const name of readdirSync(directory)) {
    const path = join(directory, name);
    try {
      if (UNFINISHED.test(name)) removeOld(path);
      if (!OWNER.test(name) || held.has(path)) continue;
      const left = await adopt(path, adoption);
      if (left !== null) adopted.push(left);
      damaged.forget(path);
    } catch (error) {
      // Gone: another process was quicker.
      if (codeOf(error) === 'ENOENT' || isGone(path)) continue;
      const failure = { file: path, reason: messageOfError(error) };
      // What is passing says nothing of the folder.
      if (isPassing(error)) onTransientFailure(failure);
      else if (damaged.note(path)) onDamage({ ...failure, bytes: 0 });
    }
  }
  return adopted;
}

async function adopt(path: string, adoption: Adoption): Promise<LeftFolder | null> {
  const lock = await tryLock(path, randomBytes(8).toString('hex'));
  if (!lock.locked) return null;
  const release = (): Promise<void> => lock.release();
  const remove = (): Promise<void> => removeAndRelease(path, release);
  try {
    const segments: Segment[] = [];
    for (const name of segmentsIn(path)) {
      const segment = await findOrPutAside(join(path, name), adoption);
      if (segment !== null) segments.push(segment);
    }
    if (segments.length > 0) return { path, segments, release, remove };
  } catch (error) {
    await release();
    throw error;
  }
  await remove();
  return null;
}

/** Null: it can't be read at all. */
async function findOrPutAside(file: string, { damaged, onDamage }: Adoption): Promise<Segment | null> {
  if (damaged.isNoted(file)) {
    await damaged.putAside(file).catch(() => undefined);
    return null;
  }
  try {
    return await findSegment(file);
  } catch (error) {
    if (isPassing(error)) throw error;
    onDamage({ file, bytes: 0, reason: messageOfError(error) });
  }
  await damaged.putAside(file).catch((error: unknown) => {
    onDamage({ file, bytes: 0, reason: `it can not be put away: ${messageOfError(error)}` });
  });
  return null;
}

/** The lock is given back whether or not the folder could be removed: the process that takes it next tries again. */
async function removeAndRelease(path: string, release: () => Promise<void>): Promise<void> {
  try {
    // Not rmSync: that of Node 24 has no code in some of its errors.
    if (segmentsIn(path).length === 0) await rm(path, { recursive: true, force: true });
  } finally {
    await release();
  }
}

const segmentName = (number: number): string => `${String(number).padStart(9, '0')}.log`;

/** Oldest first. */
function segmentsIn(path: string): string[] {
  return readdirSync(path)
    .filter((name) => SEGMENT.test(name))
    .sort();
}

function removeOld(path: string): void {
  try {
    if (Date.now() - statSync(path).mtimeMs > UNFINISHED_MAX_AGE_MS) rmSync(path, { recursive: true, force: true });
  } catch (error) {
    // Its owner has named it in the meantime.
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}
