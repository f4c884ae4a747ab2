// CPU time of a process and everything below it, from /proc/PID/stat (proc(5)).
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
/** After a round a server may still write what it owes; it counts as idle when it used at most one tick in this time. */
const IDLE_STEP_MS = 80;
const IDLE_WAIT_MS = 3_000;

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly ticks: number;
}

function readStat(pid: number): Stat | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return null; // It ended between the listing and the reading.
  }
  // The second field is the name in parentheses and may hold anything, so count from the last one: state, ppid, ...
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  // utime and stime are fields 14 and 15 of the line, cutime and cstime those of children that have ended.
  const ticks = [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index]), 0);
  return { pid, parent: Number(fields[1]), ticks };
}

/** The process and its descendants, parents first. */
function processTree(root: number): readonly Stat[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readStat(Number(name)) ?? []);
  const tree = all.filter((one) => one.pid === root);
  for (const one of tree) tree.push(...all.filter((other) => other.parent === one.pid));
  return tree;
}

export function descendants(root: number): readonly number[] {
  return processTree(root).map((one) => one.pid);
}

export function cpuSeconds(root: number): number {
  return processTree(root).reduce((sum, one) => sum + one.ticks, 0) / ticksPerSecond;
}

/** Waits until the process tree is idle, so that one contestant's late work is not charged to the next. */
export async function untilIdle(root: number): Promise<void> {
  let before = cpuSeconds(root);
  for (let waitedMs = 0; waitedMs < IDLE_WAIT_MS; waitedMs += IDLE_STEP_MS) {
    await sleep(IDLE_STEP_MS);
    const now = cpuSeconds(root);
    if ((now - before) * ticksPerSecond <= 1.5) return;
    before = now;
  }
}

/** CPU seconds of each thread of a process and everything below it. The thread with the number of its process is the one that serves. */
export function threadSeconds(root: number): ReadonlyMap<string, number> {
  const seconds = new Map<string, number>();
  for (const pid of descendants(root)) {
    for (const [name, ticks] of threadsOf(pid)) seconds.set(name, ticks / ticksPerSecond);
  }
  return seconds;
}

function threadsOf(pid: number): [string, number][] {
  try {
    const command = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
    return readdirSync(`/proc/${pid}/task`).map((tid) => {
      const stat = readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const kind = Number(tid) === pid ? 'main' : `thread ${tid}`;
      return [`${command} ${pid}, ${kind}`, Number(fields[11]) + Number(fields[12])];
    });
  } catch {
    return []; // It ended between the listing and the reading.
  }
}

/** Memory that a process and everything below it have written to and share with nobody. */
export function privateMegabytes(root: number): number {
  return descendants(root).reduce((sum, pid) => sum + privateOf(pid), 0);
}

function privateOf(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    return Number(/^Private_Dirty:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) / 1024;
  } catch {
    return 0; // It ended between the listing and the reading.
  }
}
