// What the kernel says of a thread that does not come back, and of the machine around it: the one has used its time, the other may have kept it waiting.
import { readFileSync } from 'node:fs';

export interface ThreadTime {
  /** Processor time that the thread has used since it began, to some 10 ms. */
  readonly usedMs: number;
  /** It waits for something, but not for a processor, a disk or swapped memory. */
  readonly isAsleep: boolean;
}

/** Of both files: the kernel's clock tick, which Linux tells programs as 100 in a second on every architecture (USER_HZ). */
const TICK_MS = 10;

/** Null: the kernel doesn't say it, or the thread is gone. See proc(5), /proc/pid/stat. */
export function threadTime(id: number): ThreadTime | null {
  const text = read(`/proc/self/task/${id}/stat`);
  // The name before it may have spaces and parentheses in it.
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ') ?? [];
  const [state] = fields;
  const ticks = Number(fields[11]) + Number(fields[12]);
  return state === undefined || Number.isNaN(ticks) ? null : { usedMs: ticks * TICK_MS, isAsleep: state === 'S' };
}

/** How long the machine's cores have had nothing to do since its start, all of them added up; null: the kernel doesn't say it. */
export function idleMs(): number | null {
  const ticks = Number(/^cpu +(?:\d+ ){3}(\d+)/.exec(read('/proc/stat') ?? '')?.[1]);
  return Number.isNaN(ticks) ? null : ticks * TICK_MS;
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null;
  }
}
