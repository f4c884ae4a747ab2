// A listening socket that connections are taken from, as long as they are this process's to take: what is another one's is left to it for a moment.
import type { ProcessAddon } from './process-addon.js';
import type { Share } from './shares.js';

/** What came of taking one. */
export type Taken = 'one' | 'nobody' | 'notNow';

export interface DoorOptions {
  readonly addon: ProcessAddon;
  readonly poller: number;
  readonly descriptor: number;
  /** Told of each connection that opens or closes. Null: all of them are this process's. */
  readonly share: Share | null;
  readonly take: () => Taken;
}

/** In one turn of the event loop. */
const TURN = 64;
/** Where nobody can tell how many wait, as at a UNIX socket. */
const GUESS = 4;
/** Those that were left to others are looked at again so often. */
const LOOK_MS = 1;
/** After it they are taken: the others have no time, or are gone. */
const PATIENCE_MS = 10;
/** While there is no descriptor for another connection. */
const NOT_NOW_MS = 100;

export class Door {
  /** By which the addon reports that somebody waits; null: it does not. */
  number: number | null;
  readonly #options: DoorOptions;
  #timer: NodeJS.Timeout | undefined;
  /** Since when something is left to others; null: nothing is. */
  #leftMs: number | null;

  constructor(options: DoorOptions) {
    this.#options = options;
    this.number = null;
    this.#timer = undefined;
    this.#leftMs = null;
  }

  get isOpen(): boolean {
    return this.number !== null || this.#timer !== undefined;
  }

  open(): void {
    const { addon, poller, descriptor } = this.#options;
    this.#stopTimer();
    this.number ??= addon.watchListener(poller, descriptor);
  }

  /** Those that come wait in the kernel. May be called while one is taken. */
  shut(): void {
    this.#stopTimer();
    this.#leftMs = null;
    this.#ignore();
  }

  /** Somebody waits. */
  look(): void {
    const { addon, descriptor, share } = this.#options;
    const waiting = share === null ? TURN : (addon.waitingAt(descriptor) ?? GUESS);
    const isPatient = this.#leftMs === null || performance.now() - this.#leftMs < PATIENCE_MS;
    const due = share !== null && isPatient ? share.due(waiting) : waiting;
    const taken = this.#take(Math.min(due, TURN));
    if (!this.isOpen) return;
    if (taken === 'notNow') this.#later(NOT_NOW_MS, () => this.open());
    else if (taken === 'one' && due < waiting) {
      this.#leftMs ??= performance.now();
      this.#later(LOOK_MS, () => this.look());
    } else {
      this.#leftMs = null;
      this.open();
    }
  }

  #take(most: number): Taken {
    for (let count = 0; count < most; count += 1) {
      const taken = this.#options.take();
      if (taken !== 'one' || !this.isOpen) return taken;
    }
    return 'one';
  }

  /** Nothing is reported meanwhile. */
  #later(delayMs: number, act: () => void): void {
    this.#ignore();
    this.#stopTimer();
    this.#timer = setTimeout(act, delayMs);
  }

  #ignore(): void {
    if (this.number !== null) this.#options.addon.closeSocket(this.number);
    this.number = null;
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
