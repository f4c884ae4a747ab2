// What the kernel says of a thread that does not come back: how much of a processor it has had, and whether it wants one.
import { readFileSync } from 'node:fs';

export interface ThreadTime {
  /** Processor time that the thread has used since it began, to some 10 ms. */
  readonly usedMs: number;
  /** It waits for something, but not for a processor, a disk or swapped memory. */
  readonly isAsleep: boolean;
}

/** The kernel's clock tick, which Linux tells programs as 100 in a second on every architecture (USER_HZ). */
const TICK_MS = 10;

/** Null: the kernel doesn't say it, or the thread is gone. See proc(5), /proc/pid/stat. */
export function threadTime(id: number): ThreadTime | null {
  let text: string;
  try {
    text = readFileSync(`/proc/self/task/${id}/stat`, 'latin1');
  } catch {
    return null;
  }
  // The name before it may have spaces and parentheses in it.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return Number.isNaN(ticks) ? null : { usedMs: ticks * TICK_MS, isAsleep: fields[0] === 'S' };
}
