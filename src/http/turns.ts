// The turns of the event loop: what is answered while the library is still at the bytes that it has read, and what waits for the end of the turn.
import { performance } from 'node:perf_hooks';
import { REFUSAL_MS } from '../limits.js';
import { type InLine, Line } from '../waiting/line.js';

export interface Ready {
  readonly isVouchedFor: boolean;
  readonly closeAfter: boolean;
  /** Null: it doesn't wait. Only `Turns` writes to it. */
  place: Place | null;
  /** Does nothing when the client has gone meanwhile. */
  give(): void;
}

/** Of an answer that waits for a later turn. */
class Place implements InLine<Place> {
  before: Place | null = null;
  behind: Place | null = null;
  readonly ready: Ready;
  readonly dueMs: number;
  readonly #line: Line<Place>;

  constructor(ready: Ready, line: Line<Place>, dueMs: number) {
    this.ready = ready;
    this.dueMs = dueMs;
    this.#line = line;
    ready.place = this;
    line.add(this);
  }

  leave(): void {
    this.ready.place = null;
    this.#line.remove(this);
  }
}

/**
 * So many answers of one turn are given inside of the library's run over what it has read, to whomever; and so many of a turn go to strangers in all.
 * A run goes on over all requests that lie behind each other in one packet, of which there may be thousands.
 */
const PER_TURN = 4;
/** So many refusals of a turn. Who is refused may ask again at once, and the next turn is to be a short one: others are answered at its end. */
const REFUSALS_PER_TURN = 64;

/**
 * Decides when an answer is given. uWebSockets.js closes a connection whose next request it reads before the answer to the one before: who sends
 * more behind each other than a turn has room for loses the connection, and an answer that the client has not taken is never followed by another.
 */
export class Turns {
  /** The request that the library has brought something for last, which sets it: only its answer may still be inside of the run. */
  heard: object | null = null;
  private ended = 0;
  private given = 0;
  private givenToStrangers = 0;
  private isArmed = false;
  private known: Ready[] = [];
  private readonly strangers = new Line<Place>();
  /** The first one is due first. */
  private readonly refusals = new Line<Place>();
  private areRefusalsTimed = false;

  /** Another one in each turn of those in which it is asked for. */
  number(): number {
    this.arm();
    return this.ended;
  }

  /**
   * Gives the answer now, or at the end of this turn, or, to a stranger behind others, of a later one. Who is certainly not inside of the library's run need
   * not ask.
   */
  answer(request: object, ready: Ready): void {
    if (request !== this.heard && !ready.closeAfter) {
      ready.give();
      return;
    }
    this.arm();
    if (this.hasRoom(ready)) {
      this.given += 1;
      if (!ready.isVouchedFor) this.givenToStrangers += 1;
      ready.give();
    } else if (ready.isVouchedFor) this.known.push(ready);
    else new Place(ready, this.strangers, 0);
  }

  refuse(ready: Ready): void {
    new Place(ready, this.refusals, performance.now() + REFUSAL_MS);
    this.timeRefusals();
  }

  private timeRefusals(): void {
    const first = this.refusals.first;
    if (this.areRefusalsTimed || first === null) return;
    this.areRefusalsTimed = true;
    const leftMs = first.dueMs - performance.now();
    // Timers of one turn can be several; what is set for the next turn is in the next one.
    if (leftMs <= 0) setImmediate(() => this.giveRefusals());
    else setTimeout(() => this.giveRefusals(), Math.ceil(leftMs));
  }

  private giveRefusals(): void {
    const nowMs = performance.now();
    this.areRefusalsTimed = false;
    for (let given = 0; given < REFUSALS_PER_TURN; given += 1) {
      const first = this.refusals.first;
      if (first === null || first.dueMs > nowMs) break;
      first.leave();
      first.ready.give();
    }
    this.timeRefusals();
  }

  /** The client has gone: nothing waits for it any more. */
  forget(ready: Ready): void {
    ready.place?.leave();
  }

  /** The last answer of a connection is never given inside of a run: it would go on with the rest of the packet as a request. */
  private hasRoom({ isVouchedFor, closeAfter }: Ready): boolean {
    if (closeAfter || this.given === PER_TURN) return false;
    return isVouchedFor || (this.strangers.size === 0 && this.givenToStrangers < PER_TURN);
  }

  private arm(): void {
    if (this.isArmed) return;
    this.isArmed = true;
    setImmediate(this.end);
  }

  private readonly end = (): void => {
    const { known } = this;
    this.isArmed = false;
    this.ended += 1;
    this.heard = null;
    this.given = 0;
    this.givenToStrangers = 0;
    this.known = [];
    for (const ready of known) ready.give();
    for (; this.givenToStrangers < PER_TURN; this.givenToStrangers += 1) {
      const first = this.strangers.first;
      if (first === null) break;
      first.leave();
      first.ready.give();
    }
    if (this.strangers.size > 0) this.arm();
  };
}
