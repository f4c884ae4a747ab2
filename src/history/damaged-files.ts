// Files of the journal that can't be read as they should: kept beside the others for somebody to look at, and counted.
import { readdirSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { codeOf } from '../store/store-error.js';

const FOLDER = 'damaged';

export interface DamagedFiles {
  /** Those that lie beside, from earlier processes too, and those that could not be moved there. */
  readonly count: number;
  /** Moves it beside; where that fails it stays and is known to be damaged. Rejects with why. */
  putAside(path: string): Promise<void>;
  /** It can't be read, and is left where it is. True: that is new. */
  note(path: string): boolean;
  /** What was noted could be read after all. */
  forget(path: string): void;
  isNoted(path: string): boolean;
  /** Somebody may have looked at them and taken them away. */
  recount(): void;
}

export function createDamagedFiles(directory: string): DamagedFiles {
  const folder = join(directory, FOLDER);
  const noted = new Set<string>();
  let aside = countIn(folder);

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
        noted.add(path);
        throw error;
      } finally {
        aside = countIn(folder);
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
      aside = countIn(folder);
    },
  };
}

function countIn(folder: string): number {
  try {
    return readdirSync(folder).length;
  } catch (error) {
    // Not there; or something else has the name, nothing can be put there, and what should be is noted.
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes(codeOf(error) ?? '')) return 0;
    throw error;
  }
}
