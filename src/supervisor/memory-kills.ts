// How many processes the kernel has killed because memory ran out: it tells a SIGKILL of the kernel from one of somebody else.
import { readFileSync } from 'node:fs';

/** Of the whole machine since it began (proc_vmstat(5)), also those of a container's bound; null: the kernel doesn't say. */
export function memoryKills(): number | null {
  try {
    const count = /^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'utf8'))?.[1];
    return count === undefined ? null : Number(count);
  } catch {
    return null;
  }
}
