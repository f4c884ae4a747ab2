// Folders that belong to one process: named after it, so that the next one knows those of processes that are gone, and removes them.
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';

/** In a container the next process has the pid of the last one: what tells them apart is when they started. */
const STARTED = Math.floor(performance.timeOrigin);
/** Behind the prefix; what follows it is the folder's own. */
const OWNER = /^(\d+)-(\d+)-/;

/** The beginning of a name that is ours. */
export function ownedName(prefix: string): string {
  return `${prefix}${process.pid}-${STARTED}-`;
}

/** Returns what couldn't be removed: anybody may put a folder there, which must not keep the service from starting. */
export function removeOrphans(parent: string, prefix: string): string[] {
  const warnings: string[] = [];
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix) || !isOrphan(name.slice(prefix.length))) continue;
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
  const [, pid, started] = OWNER.exec(name) ?? [];
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
