// Files of the journal that can't be read as they should: kept beside the others for somebody to look at, and counted.
import { lstatSync, readdirSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { codeOf } from '../store/store-error.js';
import { isPassing } from './segment.js';

const FOLDER = 'damaged';

export interface DamagedFiles {
  /** Those that lie beside, from earlier processes too, and those that could not be moved there. */
  readonly count: number;
  /** Moves it beside; where that fails it stays and is known to be damaged. Rejects with why. One that is gone is done with. */
  putAside(path: string): Promise<void>;
  /** It can't be read, and is left where it is. True: that is new. */
  note(path: string): boolean;
  /** What was noted could be read after all. */
  forget(path: string): void;
  isNoted(path: string): boolean;
  /** Somebody may have looked at them and taken them away; another process may have taken over a folder that was noted. */
  recount(): void;
}

export function createDamagedFiles(directory: string): DamagedFiles {
  const folder = join(directory, FOLDER);
  const noted = new Set<string>();
  let aside = countIn(folder) ?? 0;

  return {
    get count() {
      return aside + noted.size;
    },
    async putAside(path) {
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
    note(path) {
      const isNew = !noted.has(path);
      noted.add(path);
      return isNew;
    },
    forget: (path) => void noted.delete(path),
    isNoted: (path) => noted.has(path),
    recount() {
      aside = countIn(folder) ?? aside;
      for (const path of noted) if (isGone(path)) noted.delete(path);
    },
  };
}

/** The path itself, not what a link leads to. Where that can't be found out, it counts as there. */
export function isGone(path: string): boolean {
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
