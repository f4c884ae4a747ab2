// Processor time by thread, from the kernel's scheduler (/proc/PID/task/TID/schedstat, nanoseconds).
import { readdirSync, readFileSync } from 'node:fs';

export interface ServerTimes {
  /** What the thread that serves HTTP has used so far, in seconds. */
  readonly serving: number;
  /** How long it was ready to run and had no core, in seconds. */
  readonly servingWaited: number;
  readonly scanning: number;
  /** Compilers, garbage collection, files. */
  readonly others: number;
}

/**
 * Of a server that has just become ready: its main thread serves, and those that scan came last. What follows them later would be
 * stand-ins, and counts to the others.
 */
export function watchThreads(pid: number, scanThreads: number): () => ServerTimes {
  const scanning = new Set(threadsOf(pid).slice(-scanThreads));
  return () => {
    const sums = { serving: 0, servingWaited: 0, scanning: 0, others: 0 };
    for (const thread of threadsOf(pid)) {
      const { ran, waited } = secondsOf(pid, thread);
      const kind = thread === pid ? 'serving' : scanning.has(thread) ? 'scanning' : 'others';
      sums[kind] += ran;
      if (thread === pid) sums.servingWaited = waited;
    }
    return sums;
  };
}

function threadsOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`)
    .map(Number)
    .sort((one, other) => one - other);
}

function secondsOf(pid: number, thread: number): { ran: number; waited: number } {
  const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1');
  const [ran, waited] = text.split(' ');
  return { ran: Number(ran) / 1e9, waited: Number(waited) / 1e9 };
}
