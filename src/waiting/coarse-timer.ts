// Timers for deadlines that are hardly ever reached: one timer of Node stands for all of them, and beginning and ending one costs next to nothing.
import { performance } from 'node:perf_hooks';
import { type InLine, Line } from './line.js';

/** Beyond its interval a tick may be so late before anything is made of it. */
const LATE_MS = 200;

/**
 * The looks at deadlines, by interval. One that comes late is left out, but not two of them in turn: what has arrived while the process stood still lies
 * unread, the event loop reads that first, and nobody is too late because of it.
 */
export class LateTicks {
  readonly #intervalMs: number;
  #lastMs: number;
  #isSkipped = false;

  /** From now on. */
  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
    this.#lastMs = performance.now();
  }

  /** To be called with each tick. */
  isToBeSkipped(nowMs: number): boolean {
    const isLate = nowMs - this.#lastMs > this.#intervalMs + LATE_MS;
    this.#lastMs = nowMs;
    this.#isSkipped = isLate && !this.#isSkipped;
    return this.#isSkipped;
  }
}

export interface TimerOwner {
  onDue(): void;
}

/** How late one may be. */
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
    this.dueMs = performance.now() + delayMs;
    this.isGoing = true;
    timers.add(this);
    ticking ??= beginTicking();
  }

  stop(): void {
    if (!this.isGoing) return;
    this.isGoing = false;
    timers.remove(this);
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
let ticking: NodeJS.Timeout | null = null;

function beginTicking(): NodeJS.Timeout {
  const late = new LateTicks(TICK_MS);
  return setInterval(() => tick(late), TICK_MS);
}

/** The same for a callback. */
export function startCoarseTimer(delayMs: number, onDue: () => void): CoarseTimer {
  const timer = new CoarseTimer({ onDue });
  timer.start(delayMs);
  return timer;
}

/** One that is begun meanwhile is looked at by the next tick; one that is stopped by another one doesn't call back. */
function tick(late: LateTicks): void {
  const nowMs = performance.now();
  if (late.isToBeSkipped(nowMs)) return;
  const due = [];
  for (let timer = timers.first; timer !== null; timer = timer.behind) if (timer.dueMs <= nowMs) due.push(timer);
  for (const timer of due) {
    if (!timer.isGoing || timer.dueMs > nowMs) continue;
    timer.stop();
    timer.owner.onDue();
  }
  if (timers.size > 0 || ticking === null) return;
  clearInterval(ticking);
  ticking = null;
}
