// What threads share in memory. The ring of one scan thread: whose slot it is, and how the thread waits for its next scan and is woken, with one call of the kernel, and
// none where it is awake. And which contents are being scanned: the supervisor has that memory as well, so a process that crashes can't lose it.
import { readSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { type ProcessAddon, processAddon } from '../../process-addon.js';

/** One that a thread is at, and the next one. */
export const SLOTS = 2;

/** Scans posted (upper half) and begun (lower half): in one word, since one is taken back only while the other side hasn't begun it. */
export const TURN = 0;
/** Scans that have ended. */
export const ENDED = 1;
/** Instead of a slot: there is none. */
export const NO_SLOT = -1;

/** Counters go round at 2^16, of which the slots are a divisor: at most two scans are under way at any time. */
const MASK = 0xffff;
const ONE_POSTED = 0x10000;

/**
 * Position n is the slot n modulo SLOTS. A slot is the serving side's until its position is posted and, when that has ended, from then
 * on. It is the thread's from the beginning of its position to the end. What is posted and not begun is nobody's: the
 * thread may begin it, or the serving side may take it back. The first one that changes the word has it.
 */
export class ServingRing {
  /** Of the next scan, while there is room for it; only the ring writes to it. */
  freeSlot = 0;
  readonly #words: Int32Array;
  #posted = 0;
  #taken = 0;

  constructor(words: Int32Array) {
    this.#words = words;
  }

  hasRoom(): boolean {
    return ((this.#posted - this.#taken) & MASK) < SLOTS;
  }

  post(): void {
    for (;;) {
      const turn = Atomics.load(this.#words, TURN);
      // The thread may begin the one before meanwhile.
      if (Atomics.compareExchange(this.#words, TURN, turn, (turn + ONE_POSTED) | 0) === turn) break;
    }
    this.#posted = (this.#posted + 1) & MASK;
    this.freeSlot = this.#posted % SLOTS;
  }

  /** Takes back what was posted last; false: the thread has begun it, or nothing is posted. */
  takeBack(): boolean {
    for (;;) {
      const turn = Atomics.load(this.#words, TURN);
      if ((turn & MASK) === this.#posted) return false;
      if (Atomics.compareExchange(this.#words, TURN, turn, (turn - ONE_POSTED) | 0) === turn) break;
    }
    this.#posted = (this.#posted - 1) & MASK;
    this.freeSlot = this.#posted % SLOTS;
    return true;
  }

  /** A scan has ended that was not taken. */
  hasEnded(): boolean {
    return Atomics.load(this.#words, ENDED) !== this.#taken;
  }

  /** The slot of the oldest scan that has ended: to be read now, before anything is posted. */
  takeEnded(): number {
    if (Atomics.load(this.#words, ENDED) === this.#taken) return NO_SLOT;
    const slot = this.#taken % SLOTS;
    this.#taken = (this.#taken + 1) & MASK;
    return slot;
  }
}

export class ThreadRing {
  readonly #words: Int32Array;
  #begun = 0;
  #turn = 0;

  constructor(words: Int32Array) {
    this.#words = words;
  }

  /** The slot of the next scan, which is this side's from now on until its end; otherwise nothing is posted, as of `seen`. */
  begin(): number {
    for (;;) {
      const turn = Atomics.load(this.#words, TURN);
      this.#turn = turn;
      if (((turn >>> 16) & MASK) === this.#begun) return NO_SLOT;
      const next = (this.#begun + 1) & MASK;
      if (Atomics.compareExchange(this.#words, TURN, turn, (turn & ~MASK) | next) !== turn) continue;
      const slot = this.#begun % SLOTS;
      this.#begun = next;
      return slot;
    }
  }

  /** The word as `begin` saw it last: while it is the same there is nothing to begin. */
  seen(): number {
    return this.#turn;
  }

  end(): void {
    Atomics.store(this.#words, ENDED, this.#begun);
  }
}

/**
 * Of the words: the thread sleeps, or is about to, and wants to be woken. The thread alone writes it: a waker that was held up would otherwise take back
 * what it says of its next sleep.
 */
export const ASLEEP = 3;
/** After a scan the next one comes within this time, or not soon. */
const AWAKE_US = 50;
/** After a wait in vain the thread sleeps at once for so long, twice as long after each further one: where others want its core, who stays awake loses it for milliseconds. */
const REST_MS = 1;
const REST_MS_MOST = 500;
/** A thread that is to end is woken. This is for one whose process ends without a word. */
const LOOK_MS = 250;

type Waking = Pick<ProcessAddon, 'awaitWord' | 'sleepOnWord' | 'wakeWord'>;

/** Posts a change of the word to the thread: to be called after it. */
export function wakeThread(words: Int32Array, addon: Pick<Waking, 'wakeWord'> | null): void {
  if (Atomics.load(words, ASLEEP) === 0) return;
  if (addon === null) Atomics.notify(words, TURN);
  else addon.wakeWord(words, TURN);
}

/**
 * Returns what waits until the word is no longer as it was seen; it may return before that. `staysAwake`: it looks for that itself at first, so that nobody need
 * wake it; on one core it would be in the way. Atomics.wait would make two calls of the kernel of each
 * waking, and a thread that is woken by it stands still at once behind a lock that the waking one still has. To be called before the thread is confined: it may
 * load the addon.
 */
export function sleeper(
  words: Int32Array,
  staysAwake: boolean,
  addon: Waking | null = processAddon(),
  now: () => number = () => performance.now(),
): (seen: number) => void {
  let restMs = 0;
  let restsUntilMs = 0;
  return (seen) => {
    if (staysAwake && addon !== null && now() >= restsUntilMs) {
      if (addon.awaitWord(words, TURN, seen, AWAKE_US)) {
        restMs = 0;
        return;
      }
      restMs = Math.min(Math.max(2 * restMs, REST_MS), REST_MS_MOST);
      restsUntilMs = now() + restMs;
    }
    Atomics.store(words, ASLEEP, 1);
    // Whoever changes the word from here on sees that, and what was changed before is seen by the call.
    if (addon === null) Atomics.wait(words, TURN, seen, LOOK_MS);
    else addon.sleepOnWord(words, TURN, seen, LOOK_MS);
    Atomics.store(words, ASLEEP, 0);
  };
}

/** A SHA-256 as hexadecimal digits. */
const DIGEST_BYTES = 64;
const DIGEST = /^[0-9a-f]{64}$/;
/** More than there are threads, with those that are given up. */
const PLACES = 1024;

/** Returns its descriptor, for a process that inherits it; null without the addon: then nothing is noted. */
export const openInFlight = (): number | null => processAddon()?.openSharedMemory(PLACES * DIGEST_BYTES) ?? null;

/** For a scan thread, which writes at a place of its own. `descriptor` null: nothing is written. */
export function createNote(descriptor: number | null, place: number) {
  const memory = descriptor === null || place >= PLACES ? undefined : processAddon()?.mapSharedMemory(descriptor);
  const bytes = memory && new Uint8Array(memory, place * DIGEST_BYTES, DIGEST_BYTES);
  return {
    /** Writes the digest down, in the place of the one before. */
    enter: (digest: Uint8Array): void => bytes?.set(digest),
    /** Nothing is scanned here now. */
    leave: (): void => void bytes?.fill(0),
  };
}

/** What was being scanned when the process ended, each digest once. */
export function readInFlight(descriptor: number): string[] {
  const bytes = Buffer.alloc(PLACES * DIGEST_BYTES);
  readSync(descriptor, bytes, 0, bytes.length, 0);
  const text = bytes.toString('latin1');
  const digests = new Set<string>();
  for (let start = 0; start < text.length; start += DIGEST_BYTES) {
    const digest = text.slice(start, start + DIGEST_BYTES);
    if (DIGEST.test(digest)) digests.add(digest);
  }
  return [...digests];
}
