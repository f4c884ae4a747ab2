// Ticks of a process that stood still: what has arrived meanwhile lies unread, and nobody is to be too late because of that.
import { performance } from 'node:perf_hooks';

/** Beyond its interval a tick may be so late before anything is made of it. */
const LATE_MS = 200;

/** The looks at deadlines, by interval. One that comes late is left out, so that the event loop reads first; but not two of them in turn. */
export class LateTicks {
  readonly #intervalMs: number;
  #lastMs: number;
  #isSkipped: boolean;

  /** From now on. */
  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
    this.#lastMs = performance.now();
    this.#isSkipped = false;
  }

  /** To be called with each tick. */
  isToBeSkipped(nowMs: number): boolean {
    const isLate = nowMs - this.#lastMs > this.#intervalMs + LATE_MS;
    this.#lastMs = nowMs;
    this.#isSkipped = isLate && !this.#isSkipped;
    return this.#isSkipped;
  }
}
