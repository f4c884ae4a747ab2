// How the processes of a node share out the connections that come to them: what each has is in memory that all of them see, and who has its share leaves what comes to the others.
import { processAddon } from './process-addon.js';

const protocols = ['http', 'clamd', 'icap'] as const;
export type Protocol = (typeof protocols)[number];
/** Null: there are no other processes. */
export type ShareOf = (protocol: Protocol) => Share | null;

/** What the memory is called among the descriptors that a process inherits. */
export const SHARES = 'shares';

/** Of one process: a cache line. */
const PLACE_WORDS = 16;
/** Twice as many processes as there can be, while each is replaced, and as many again that still answer what they had. */
const PLACES = 256;
/** A process may have so many more than each would have in equal parts. Without it one would wait for another over every single connection. */
const SLACK = 4;

/** As the supervisor has them. */
export interface Shares {
  readonly descriptor: number;
  /** A place for one more process; null: there is none. */
  take(): number | null;
  /** The process is gone. */
  free(place: number): void;
}

/** Null without the addon. */
export function createShares(): Shares | null {
  const addon = processAddon();
  if (addon === null) return null;
  const descriptor = addon.openSharedMemory(Int32Array.BYTES_PER_ELEMENT * PLACE_WORDS * PLACES);
  const words = new Int32Array(addon.mapSharedMemory(descriptor));
  const free = Array.from({ length: PLACES }, (_, place) => place);
  return {
    descriptor,
    take: () => free.shift() ?? null,
    free(place) {
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
  #count: number;
  #takesPart: boolean;

  constructor(words: Int32Array, place: number, protocol: Protocol) {
    this.#words = words;
    this.#row = protocols.indexOf(protocol);
    this.#own = place * PLACE_WORDS + this.#row;
    this.#count = 0;
    this.#takesPart = false;
  }

  /** This process takes connections from now on, beside the others. */
  join(): void {
    this.#takesPart = true;
    this.say(this.#count);
  }

  /** It takes none any more. */
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
