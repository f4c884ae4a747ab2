// The engine's temporary folder: in memory where the machine has room for it, of this process alone, and nothing left behind.
import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';

/** A tmpfs on every Linux; libclamav makes a folder for each scan, which costs four times the scan of 1 KB on a disk. */
const MEMORY_DIRECTORY = '/dev/shm';
/** Room that unpacking may need at once. Docker gives containers 64 MB unless told otherwise. */
const ROOM_BYTES = 256 * 1024 * 1024;
const PREFIX = 'sluice-engine-';
/** In a container the next process has the pid of the last one: what tells them apart is when they started. */
const STARTED = Math.floor(performance.timeOrigin);
const OWNED = new RegExp(`^${PREFIX}(\\d+)-(\\d+)-`);

export interface Scratch {
  readonly directory: string;
  /** What the operator should know, or null. */
  readonly warning: string | null;
  /**
   * Removes what nobody has written to for so long: a scan removes its own folder, so this was left by a parser that forgot
   * it. Resolves with what couldn't be removed or looked at; null: nothing.
   */
  sweep(olderThanMs: number): Promise<string | null>;
  remove(): void;
}

/** Makes the folder, after removing those of processes that are gone. */
export function makeScratch(): Scratch {
  const inMemory = roomBytes(MEMORY_DIRECTORY) >= ROOM_BYTES;
  const parent = inMemory ? MEMORY_DIRECTORY : tmpdir();
  const warnings = removeOrphans(parent);
  if (!inMemory) {
    const room = `${MEMORY_DIRECTORY} has less than ${ROOM_BYTES >> 20} MB free`;
    warnings.push(`${room}: the engine unpacks into ${parent}, which is slower`);
  }
  const directory = mkdtempSync(join(parent, `${PREFIX}${process.pid}-${STARTED}-`));
  return {
    directory,
    warning: warnings.length === 0 ? null : warnings.join('; '),
    sweep: (olderThanMs) => sweep(directory, Date.now() - olderThanMs),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

async function sweep(directory: string, beforeMs: number): Promise<string | null> {
  try {
    for (const name of await readdir(directory)) {
      const path = join(directory, name);
      // A scan that ends meanwhile removes its folder itself.
      const modifiedMs = await stat(path).then(
        ({ mtimeMs }) => mtimeMs,
        () => Number.POSITIVE_INFINITY,
      );
      if (modifiedMs < beforeMs) await rm(path, { recursive: true, force: true });
    }
    return null;
  } catch (error) {
    return `The engine's temporary folder can't be swept: ${error instanceof Error ? error.message : String(error)}`;
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

/** Returns what couldn't be removed: anybody may put a folder there, which must not keep the service from starting. */
function removeOrphans(parent: string): string[] {
  const warnings: string[] = [];
  for (const name of readdirSync(parent)) {
    if (!isOrphan(name)) continue;
    try {
      rmSync(join(parent, name), { recursive: true, force: true });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      warnings.push(`the leftover folder ${name} cannot be removed: ${reason}`);
    }
  }
  return warnings;
}

function isOrphan(name: string): boolean {
  const [, pid, started] = OWNED.exec(name) ?? [];
  if (pid === undefined) return false;
  return Number(pid) === process.pid ? Number(started) !== STARTED : !isAlive(Number(pid));
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
