// One process at a time on a data directory: a lock file that names its owner, and that outlives no crash.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Takes the lock and returns what gives it back. Throws when a living process has it. */
export function lockDataDirectory(directory: string): () => void {
  const path = join(directory, 'sluice.lock');
  const owner = ownerOf(process.pid);
  for (let attempt = 0; ; attempt++) {
    try {
      writeFileSync(path, JSON.stringify(owner), { flag: 'wx', mode: 0o600 });
      return () => rmSync(path, { force: true });
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    }
    const pid = livingOwner(path);
    if (pid !== null || attempt > 0) {
      throw new Error(`${directory} is in use by process ${pid ?? 'unknown'}: stop it, or set DATA_DIR to another folder`);
    }
    rmSync(path, { force: true });
  }
}

interface Owner {
  readonly pid: number;
  /** Clock ticks after boot, of /proc/PID/stat: pids come again, both together don't. */
  readonly startTicks: string;
}

function ownerOf(pid: number): Owner {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is the program's name in parentheses and may hold anything; the start time is field 22.
  const startTicks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  return { pid, startTicks };
}

function livingOwner(path: string): number | null {
  try {
    const { pid, startTicks }: Partial<Owner> = JSON.parse(readFileSync(path, 'utf8'));
    return pid !== undefined && ownerOf(pid).startTicks === startTicks ? pid : null;
  } catch {
    // Unreadable, half written, or its process is gone: nobody's.
    return null;
  }
}
