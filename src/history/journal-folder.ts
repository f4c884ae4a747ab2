// Whose the journal's folders are: one for each process, locked while it lives; what a dead one left is taken over, and files that can't be read are put aside and counted.

import { randomBytes } from 'node:crypto';
import { lstatSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { codeOf, messageOfError } from '../error-text.js';
import { makeFolder } from '../folders.js';
import { tryLock } from '../store/data-lock.js';
import { StoreError } from '../store/store-error.js';
import { findSegment, isPassing, type Segment } from './segment.js';

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

export function segmentName(number: number): string {
  return `${String(number).padStart(9, '0')}.log`;
}

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

/** For files that can't be read as they should: for somebody to look at. */
const FOLDER = 'damaged';

export function createDamagedFiles(directory: string) {
  const folder = join(directory, FOLDER);
  const noted = new Set<string>();
  let aside = countIn(folder) ?? 0;

  return {
    /** Those that lie beside, from earlier processes too, and those that could not be moved there. */
    get count(): number {
      return aside + noted.size;
    },
    /** Moves it beside; where that fails it stays and is known to be damaged. Rejects with why. One that is gone is done with. */
    async putAside(path: string): Promise<void> {
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await rename(path, join(folder, `${basename(dirname(path))}-${basename(path)}`));
        noted.delete(path);
      } catch (error) {
        noted.delete(path);
        if (isGone(path)) return;
        noted.add(path);
        throw error;
      } finally {
        aside = countIn(folder) ?? aside;
      }
    },
    /** It can't be read, and is left where it is. True: that is new. */
    note(path: string): boolean {
      const isNew = !noted.has(path);
      noted.add(path);
      return isNew;
    },
    /** What was noted could be read after all. */
    forget: (path: string) => void noted.delete(path),
    isNoted: (path: string) => noted.has(path),
    /** Somebody may have looked at them and taken them away; another process may have taken over a folder that was noted. */
    recount(): void {
      aside = countIn(folder) ?? aside;
      for (const path of noted) if (isGone(path)) noted.delete(path);
    },
  };
}

/** The path itself, not what a link leads to. Where that can't be found out, it counts as there. */
function isGone(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

/** Null: that can't be found out now. */
function countIn(folder: string): number | null {
  try {
    return readdirSync(folder).length;
  } catch (error) {
    // Not there; or something else has the name, nothing can be put there, and what should be is noted.
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes(codeOf(error) ?? '')) return 0;
    if (isPassing(error)) return null;
    throw error;
  }
}
