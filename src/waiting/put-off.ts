// Work of many that each have had their turn: it goes on a little in each turn of the event loop, however much of it there is.
import { performance } from 'node:perf_hooks';
import { PUT_OFF_MS } from '../limits.js';
import { type InLine, Line } from './line.js';

export interface PutOff extends InLine<PutOff> {
  /** The next piece. It may be put off again. */
  onTurn(): void;
}

export class PutOffTurns {
  readonly #line: Line<PutOff> = new Line();
  #isGoingOn = false;

  add(work: PutOff): void {
    this.#line.add(work);
    this.#goOnLater();
  }

  #goOnLater(): void {
    if (this.#isGoingOn || this.#line.first === null) return;
    this.#isGoingOn = true;
    setImmediate(() => this.#goOn());
  }

  /** Each of those that are there once, or as many as there is time for: everybody else has a turn before the others. */
  #goOn(): void {
    this.#isGoingOn = false;
    const end = performance.now() + PUT_OFF_MS;
    for (let left = this.#line.size; left > 0 && performance.now() < end; left -= 1) {
      const work = this.#line.first;
      if (work === null) break;
      this.#line.remove(work);
      work.onTurn();
    }
    this.#goOnLater();
  }
}
