// Whether a content hangs: how long its thread has worked on it since it was given up, or slept without a reason, as the kernel says.
import { readFileSync } from 'node:fs';

interface Sample {
  readonly id: number | null | undefined;
  readonly atMs: number;
  readonly thread: ThreadTime | null;
}

/** What the kernel says of a thread that does not come back. */
interface ThreadTime {
  /** Processor time that the thread has used since it began, to some 10 ms. */
  readonly usedMs: number;
  /** It waits for something, but not for a processor, a disk or swapped memory. */
  readonly isAsleep: boolean;
}

/** The kernel's clock tick, which Linux tells programs as 100 in a second on every architecture (USER_HZ). */
const TICK_MS = 10;

/**
 * What counts is processor time, and time asleep while this process runs. libclamav measures real time: if it can end a content by itself at
 * all, it does so before that, even on an overloaded machine. A process that stands still says nothing of the content, nor does a thread that
 * waits for a processor, a disk or swapped memory.
 */
export class HangWatch {
  /** The thread is not back long after the deadline. */
  isLate = false;
  isHung = false;
  readonly #lateAtMs: number;
  readonly #everyMs: number;
  readonly #hungMs: number;
  #last: Sample;
  #takenMs = 0;

  /** `hungMs`: a content whose thread has taken so much more since now hangs. */
  constructor(id: Sample['id'], nowMs: number, times: { lateAtMs: number; everyMs: number; hungMs: number }) {
    this.#lateAtMs = times.lateAtMs;
    this.#everyMs = times.everyMs;
    this.#hungMs = times.hungMs;
    this.#last = sampleOf(id, nowMs);
  }

  /** Looks when it is time to. True, once: the content hangs. */
  look(id: Sample['id'], nowMs: number): boolean {
    const last = this.#last;
    const passedMs = nowMs - last.atMs;
    if (passedMs < this.#everyMs || this.isHung) return false;
    const now = sampleOf(id, nowMs);
    // This process has had no turn, or has stood still.
    const isTooLate = passedMs > 2 * this.#everyMs;
    if (last.thread !== null && now.thread !== null) {
      const workedMs = now.thread.usedMs - last.thread.usedMs;
      const hasSlept = last.thread.isAsleep && now.thread.isAsleep && !isTooLate;
      this.#takenMs += hasSlept ? Math.max(passedMs, workedMs) : workedMs;
    } else if (last.id !== undefined && !isTooLate) {
      // Where the kernel says nothing the clock has to do. A thread that has yet to start has not even seen the content.
      this.#takenMs += passedMs;
    }
    this.#last = now;
    this.isLate = nowMs >= this.#lateAtMs;
    this.isHung = this.isLate && this.#takenMs >= this.#hungMs;
    return this.isHung;
  }
}

function sampleOf(id: Sample['id'], atMs: number): Sample {
  return { id, atMs, thread: typeof id === 'number' ? threadTime(id) : null };
}

/** Null: the kernel doesn't say it, or the thread is gone. See proc(5), /proc/pid/stat. */
function threadTime(id: number): ThreadTime | null {
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
