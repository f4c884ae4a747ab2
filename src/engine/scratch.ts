// The engine's temporary folder: in memory where the machine has room for it, of this process alone, and nothing left behind.
import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A tmpfs on every Linux; libclamav makes a folder for each scan, which costs four times the scan of 1 KB on a disk. */
const MEMORY_DIRECTORY = '/dev/shm';
/** Room that unpacking may need at once. Docker gives containers 64 MB unless told otherwise. */
const ROOM_BYTES = 256 * 1024 * 1024;
const PREFIX = 'sluice-engine-';

export interface Scratch {
  readonly directory: string;
  /** What the operator should know, or null. */
  readonly warning: string | null;
  remove(): void;
}

/** Makes the folder, after removing those of processes that are gone. */
export function makeScratch(): Scratch {
  const inMemory = roomBytes(MEMORY_DIRECTORY) >= ROOM_BYTES;
  const parent = inMemory ? MEMORY_DIRECTORY : tmpdir();
  removeOrphans(parent);
  const directory = mkdtempSync(join(parent, `${PREFIX}${process.pid}-`));
  return {
    directory,
    warning: inMemory
      ? null
      : `${MEMORY_DIRECTORY} has less than ${ROOM_BYTES >> 20} MB free: the engine unpacks into ${parent}, which is slower`,
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

function roomBytes(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

function removeOrphans(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(parent, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it lives and belongs to somebody else.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
