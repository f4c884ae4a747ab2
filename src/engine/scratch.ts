// The engine's temporary folder: in memory where the machine has room for it, of this process alone, and nothing left behind.
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOfError } from '../error-text.js';
import { processFolderName, removeOrphans, showLife } from './process-folders.js';

/** A tmpfs on every Linux; libclamav makes a folder for each scan, which costs four times the scan of 1 KB on a disk. */
const MEMORY_DIRECTORY = '/dev/shm';
/** Room that unpacking may need at once. Docker gives containers 64 MB by default. */
const ROOM_BYTES = 256 * 1024 * 1024;
const PREFIX = 'sluice-engine-';

export interface Scratch {
  readonly directory: string;
  /** What the operator should know, or null. */
  readonly warning: string | null;
  /**
   * To be called every SIGN_OF_LIFE_MS. Removes what has not been written to for so long: a scan removes its own folder, so
   * a parser has left it behind. Also removes the folders of processes that are gone. Resolves with what went wrong, or null.
   */
  sweep(olderThanMs: number): Promise<string | null>;
  remove(): void;
}

/** Makes the folder, after removing those of processes that are gone. */
export function makeScratch(): Scratch {
  const inMemory = roomBytes(MEMORY_DIRECTORY) >= ROOM_BYTES;
  const parent = inMemory ? MEMORY_DIRECTORY : tmpdir();
  const warnings = removeOrphans(parent, PREFIX);
  if (!inMemory) {
    const room = `${MEMORY_DIRECTORY} has less than ${ROOM_BYTES >> 20} MB free`;
    warnings.push(`${room}: the engine unpacks into ${parent}, which is slower`);
  }
  const directory = mkdtempSync(join(parent, processFolderName(PREFIX)));
  return {
    directory,
    warning: warnings.length === 0 ? null : warnings.join('; '),
    sweep: (olderThanMs) => {
      showLife(directory);
      // The warning at the start has said what can't be removed.
      removeOrphans(parent, PREFIX);
      return sweep(directory, Date.now() - olderThanMs);
    },
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

async function sweep(directory: string, beforeMs: number): Promise<string | null> {
  try {
    for (const name of await readdir(directory)) {
      const path = join(directory, name);
      // A scan that ends meanwhile removes its folder itself.
      const modifiedMs = await lstat(path).then(
        ({ mtimeMs }) => mtimeMs,
        () => Number.POSITIVE_INFINITY,
      );
      if (modifiedMs < beforeMs) await rm(path, { recursive: true, force: true });
    }
    return null;
  } catch (error) {
    return `The engine's temporary folder can't be swept: ${messageOfError(error)}`;
  }
}

function roomBytes(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  } catch {
    return 0;
  }
}
