// Connections that wait at a listening socket, shared out among the processes of a node: what each has is in memory that all of them see, and who has its share leaves
// what comes to the others for a moment.
import { type ProcessAddon, processAddon } from './process-addon.js';

export type Acceptance = 'one' | 'nobody' | 'notNow';

interface DoorOptions {
  readonly addon: ProcessAddon;
  readonly poller: number;
  readonly descriptor: number;
  /** Told of each connection that opens or closes. Null: all of them are this process's. */
  readonly share: Share | null;
  readonly take: () => Acceptance;
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
  number: number | null = null;
  readonly #options: DoorOptions;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** Since when something is left to others; null: nothing is. */
  #leftMs: number | null = null;

  constructor(options: DoorOptions) {
    this.#options = options;
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

  #take(most: number): Acceptance {
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

const protocols = ['http', 'clamd', 'icap'] as const;
type DoorProtocol = (typeof protocols)[number];
/** Null: there are no other processes. */
export type ShareOf = (protocol: DoorProtocol) => Share | null;

/** What the memory is called among the descriptors that a process inherits. */
export const SHARES = 'shares';

/** Of one process: a cache line. */
const PLACE_WORDS = 16;
/** Twice as many processes as there can be, while each is replaced, and as many again that still answer what they had. */
const PLACES = 256;
/** A process may have so many more than each would have in equal parts. Without it one would wait for another over every single connection. */
const SLACK = 4;

/** As the supervisor has them. */
export type DoorShares = NonNullable<ReturnType<typeof createShares>>;

/** Null without the addon. */
export function createShares() {
  const addon = processAddon();
  if (addon === null) return null;
  const descriptor = addon.openSharedMemory(Int32Array.BYTES_PER_ELEMENT * PLACE_WORDS * PLACES);
  const words = new Int32Array(addon.mapSharedMemory(descriptor));
  const free = Array.from({ length: PLACES }, (_, place) => place);
  return {
    descriptor,
    /** A place for one more process; null: there is none. */
    take: (): number | null => free.shift() ?? null,
    /** The process is gone. */
    free(place: number): void {
      words.fill(0, place * PLACE_WORDS, (place + 1) * PLACE_WORDS);
      free.push(place);
    },
  };
}

/** As a process has them that was given a place. */
export function joinShares(descriptor: number, place: number): ShareOf {
  const addon = processAddon();
  if (addon === null) return () => null;
  const words = new Int32Array(addon.mapSharedMemory(descriptor));
  return (protocol) => new Share(words, place, protocol);
}

/** The connections of one protocol, as one process sees them. */
export class Share {
  /** For each process one more than it has; 0: it takes none. */
  readonly #words: Int32Array;
  readonly #row: number;
  readonly #own: number;
  #count = 0;
  #takesPart = false;

  constructor(words: Int32Array, place: number, protocol: DoorProtocol) {
    this.#words = words;
    this.#row = protocols.indexOf(protocol);
    this.#own = place * PLACE_WORDS + this.#row;
  }

  /** This process takes connections from now on, beside the others. */
  join(): void {
    this.#takesPart = true;
    this.say(this.#count);
  }

  leave(): void {
    this.#takesPart = false;
    this.#words[this.#own] = 0;
  }

  /** So many are open. */
  say(count: number): void {
    this.#count = count;
    if (this.#takesPart) this.#words[this.#own] = 1 + count;
  }

  /** How many of those that wait this process may take now. */
  due(waiting: number): number {
    let all = waiting;
    let processes = 0;
    for (let at = this.#row; at < this.#words.length; at += PLACE_WORDS) {
      const word = this.#words[at] ?? 0;
      if (word === 0) continue;
      all += word - 1;
      processes += 1;
    }
    const most = Math.ceil(all / Math.max(1, processes)) + SLACK;
    return Math.max(0, Math.min(waiting, most - this.#count));
  }
}
