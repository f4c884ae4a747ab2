// Timers for deadlines that are hardly ever reached: one timer of Node stands for all of them, which goes off when one of them is due, and beginning and ending one costs next to nothing.
import { performance } from 'node:perf_hooks';
import { type InLine, Line } from './line.js';

/** A look may be so late before anything is made of it. */
const LATE_MS = 200;

/**
 * The looks at deadlines. One that comes late is left out, but not two of them in turn: what has arrived while the process stood still lies
 * unread, the event loop reads that first, and nobody is too late because of it.
 */
export class LateTicks {
  #isSkipped = false;

  /** To be called with each look; `dueMs`: when it was to come. */
  isToBeSkipped(nowMs: number, dueMs: number): boolean {
    this.#isSkipped = nowMs - dueMs > LATE_MS && !this.#isSkipped;
    return this.#isSkipped;
  }
}

export interface TimerOwner {
  onDue(): void;
}

/** How late one may be, and how long there is at least between two looks. */
const TICK_MS = 20;

/** A timer that its owner starts and stops as often as it likes. */
export class CoarseTimer implements InLine<CoarseTimer> {
  readonly owner: TimerOwner;
  dueMs = 0;
  isGoing = false;
  before: CoarseTimer | null = null;
  behind: CoarseTimer | null = null;
  #leftMs = 0;

  constructor(owner: TimerOwner) {
    this.owner = owner;
  }

  /**
   * Calls back once, after so long, up to 20 ms later, and never before. One that goes already begins again. Where the process stood still, what has
   * arrived meanwhile is read first.
   */
  start(delayMs: number): void {
    if (this.isGoing) this.stop();
    const nowMs = performance.now();
    this.dueMs = nowMs + delayMs;
    this.isGoing = true;
    timers.add(this);
    if (timers.size === 1) alarm?.ref();
    if (this.dueMs < alarmMs - TICK_MS) lookAt(Math.max(this.dueMs, nowMs + TICK_MS));
  }

  stop(): void {
    if (!this.isGoing) return;
    this.isGoing = false;
    timers.remove(this);
    // It may go off long after.
    if (timers.size === 0) alarm?.unref();
  }

  /** Its time stands still until `goOn`; of one that goes. */
  pause(): void {
    this.#leftMs = this.dueMs - performance.now();
    this.stop();
  }

  goOn(): void {
    this.start(this.#leftMs);
  }
}

const timers = new Line<CoarseTimer>();
const late = new LateTicks();
let alarm: NodeJS.Timeout | undefined;
/** When the timers are looked at next. */
let alarmMs = Number.POSITIVE_INFINITY;

function lookAt(atMs: number): void {
  clearTimeout(alarm);
  alarmMs = atMs;
  alarm = setTimeout(look, Math.ceil(atMs - performance.now()));
}

/** The same for a callback. */
export function startCoarseTimer(delayMs: number, onDue: () => void): CoarseTimer {
  const timer = new CoarseTimer({ onDue });
  timer.start(delayMs);
  return timer;
}

/** One that is begun meanwhile is looked at the next time; one that is stopped by another one doesn't call back. */
function look(): void {
  const nowMs = performance.now();
  const isSkipped = late.isToBeSkipped(nowMs, alarmMs);
  alarmMs = Number.POSITIVE_INFINITY;
  const due = [];
  let nextMs = Number.POSITIVE_INFINITY;
  for (let timer = timers.first; timer !== null; timer = timer.behind) {
    if (timer.dueMs <= nowMs && !isSkipped) due.push(timer);
    else nextMs = Math.min(nextMs, timer.dueMs);
  }
  if (nextMs < Number.POSITIVE_INFINITY) lookAt(Math.max(nextMs, nowMs + TICK_MS));
  for (const timer of due) {
    if (!timer.isGoing || timer.dueMs > nowMs) continue;
    timer.stop();
    timer.owner.onDue();
  }
}
