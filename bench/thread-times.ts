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

/** Of a server that has scanned with each of its threads: its main thread serves, and those that scan have confined themselves more than that one. */
export function threadTimes(pid: number): ServerTimes {
  const sums = { serving: 0, servingWaited: 0, scanning: 0, others: 0 };
  const filters = seccompFilters(pid, pid);
  for (const thread of readdirSync(`/proc/${pid}/task`).map(Number)) {
    const { ran, waited } = secondsOf(pid, thread);
    if (thread === pid) {
      sums.serving = ran;
      sums.servingWaited = waited;
    } else sums[seccompFilters(pid, thread) > filters ? 'scanning' : 'others'] += ran;
  }
  return sums;
}

function seccompFilters(pid: number, thread: number): number {
  const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'latin1');
  return Number(/^Seccomp_filters:\s*(\d+)$/m.exec(status)?.[1] ?? 0);
}

function secondsOf(pid: number, thread: number): { ran: number; waited: number } {
  const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1');
  const [ran, waited] = text.split(' ');
  return { ran: Number(ran) / 1e9, waited: Number(waited) / 1e9 };
}
