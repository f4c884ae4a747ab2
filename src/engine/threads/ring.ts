// Whose slot it is, in the ring of one scan thread: two counters that two threads share, and nothing else, say it.

/** Atomic and in one order for all threads, as `Atomics` has it. A test puts a model of all interleavings in its place. */
export interface Words {
  load(index: number): number;
  store(index: number, value: number): void;
  /** Returns what was there. */
  compareExchange(index: number, expected: number, replacement: number): number;
}

/** One that a thread is at, and the next one. */
export const SLOTS = 2;

/** Scans posted (upper half) and begun (lower half): in one word, since one is taken back only while the other side hasn't begun it. */
export const TURN = 0;
/** Scans that have ended. */
export const ENDED = 1;

/** Counters go round at 2^16, of which the slots are a divisor: at most two scans are under way at any time. */
const MASK = 0xffff;
const ONE_POSTED = 0x10000;

/**
 * Position n is the slot n modulo SLOTS. A slot is the serving side's until its position is posted and, when that has ended, from then
 * on. It is the thread's from the beginning of its position to the end. What is posted and not begun is nobody's: the
 * thread may begin it, or the serving side may take it back. The first one that changes the word has it.
 */
export interface ServingSide {
  /** There is a slot to write to. */
  hasRoom(): boolean;
  /** The slot that may be written to, until it is posted. */
  nextSlot(): number;
  post(): void;
  /** Takes back what was posted last; false: the thread has begun it, or nothing is posted. */
  takeBack(): boolean;
  /** The slot of the oldest scan that has ended, to be read until `taken`; null: none has. */
  endedSlot(): number | null;
  taken(): void;
}

export interface ThreadSide {
  /** The slot of the next scan, which is this side's from now on until its end; null: nothing is posted, as of `seen`. */
  begin(): number | null;
  /** The word as `begin` saw it last: while it is the same there is nothing to begin. */
  seen(): number;
  end(): void;
}

export function servingSide(words: Words): ServingSide {
  let posted = 0;
  let taken = 0;
  return {
    hasRoom: () => ((posted - taken) & MASK) < SLOTS,
    nextSlot: () => posted % SLOTS,
    post() {
      for (;;) {
        const turn = words.load(TURN);
        // The thread may begin the one before meanwhile.
        if (words.compareExchange(TURN, turn, (turn + ONE_POSTED) | 0) === turn) break;
      }
      posted = (posted + 1) & MASK;
    },
    takeBack() {
      for (;;) {
        const turn = words.load(TURN);
        if ((turn & MASK) === posted) return false;
        if (words.compareExchange(TURN, turn, (turn - ONE_POSTED) | 0) === turn) break;
      }
      posted = (posted - 1) & MASK;
      return true;
    },
    endedSlot: () => (words.load(ENDED) === taken ? null : taken % SLOTS),
    taken() {
      taken = (taken + 1) & MASK;
    },
  };
}

export function threadSide(words: Words): ThreadSide {
  let begun = 0;
  let turn = 0;
  return {
    begin() {
      for (;;) {
        turn = words.load(TURN);
        if (((turn >>> 16) & MASK) === begun) return null;
        const next = (begun + 1) & MASK;
        if (words.compareExchange(TURN, turn, (turn & ~MASK) | next) === turn) {
          const slot = begun % SLOTS;
          begun = next;
          return slot;
        }
      }
    },
    seen: () => turn,
    end: () => words.store(ENDED, begun),
  };
}

export function atomicWords(words: Int32Array): Words {
  return {
    load: (index) => Atomics.load(words, index),
    store: (index, value) => void Atomics.store(words, index, value),
    compareExchange: (index, expected, replacement) => Atomics.compareExchange(words, index, expected, replacement),
  };
}
