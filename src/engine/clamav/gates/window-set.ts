// A set of hashed windows in a few bits for each (a binary fuse filter: Graf and Lemire, 2022). It knows all that are in it, and of others one in 2^bits.

/** 39 bits of a window's hash. */
export interface HashedWindow {
  readonly first: number;
  /** Seven bits. */
  readonly second: number;
}

/** Of 39 bits. */
export const numberOf = ({ first, second }: HashedWindow): number => second * 2 ** 32 + first;

export interface WindowSet {
  has(window: HashedWindow): boolean;
}

export interface StoredSet {
  readonly seed: number;
  /** Bits of a fingerprint, at most 8. */
  readonly bits: number;
  readonly segmentLength: number;
  readonly segments: number;
  /** Fingerprints side by side, the lowest bits first. */
  readonly bytes: Uint8Array;
}

/** Each window has a place in each of so many segments that lie side by side. */
const PLACES = 3;
/** A byte behind the last fingerprint is read with it. */
const BYTES_BEHIND = 1;
const BUILDS_MAX = 100;

export function mixed(number: number): number {
  let mix = number ^ (number >>> 16);
  mix = Math.imul(mix, 0x85ebca6b);
  mix ^= mix >>> 13;
  mix = Math.imul(mix, 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}

/** Where a window lies, and with which fingerprint: written over by the next one, since millions are asked about. */
class WindowPlaces {
  readonly at = new Uint32Array(PLACES);
  fingerprint = 0;
  readonly #seed: number;
  readonly #bits: number;
  readonly #segmentLength: number;
  readonly #segments: number;

  constructor({ seed, bits, segmentLength, segments }: Omit<StoredSet, 'bytes'>) {
    this.#seed = seed;
    this.#bits = bits;
    this.#segmentLength = segmentLength;
    this.#segments = segments;
  }

  findNumber(window: number): void {
    this.find(window % 2 ** 32, Math.floor(window / 2 ** 32));
  }

  find(first: number, second: number): void {
    const one = mixed(first ^ mixed(second + this.#seed));
    const two = mixed(one ^ Math.imul(first, 0x27d4eb2f));
    const three = mixed(two ^ 0x9e3779b9);
    const length = this.#segmentLength;
    const start = one % (this.#segments * length);
    this.at[0] = start;
    this.at[1] = (start + length) ^ (two & (length - 1));
    this.at[2] = (start + 2 * length) ^ (three & (length - 1));
    this.fingerprint = three >>> (32 - this.#bits);
  }
}

export function byteLengthOf({ bits, segmentLength, segments }: Omit<StoredSet, 'bytes'>): number {
  return Math.ceil(((segments + PLACES - 1) * segmentLength * bits) / 8) + BYTES_BEHIND;
}

export function openSet(stored: StoredSet): WindowSet {
  const { bits, bytes } = stored;
  const places = new WindowPlaces(stored);
  const mask = (1 << bits) - 1;
  const fingerprintAt = (place: number): number => {
    const bit = place * bits;
    const byte = Math.floor(bit / 8);
    return (((bytes[byte] ?? 0) | ((bytes[byte + 1] ?? 0) << 8)) >>> (bit % 8)) & mask;
  };
  return {
    has({ first, second }) {
      places.find(first, second);
      // Taken apart by an iterator it would take as long as all else.
      const { at, fingerprint } = places;
      return (fingerprintAt(at[0] ?? 0) ^ fingerprintAt(at[1] ?? 0) ^ fingerprintAt(at[2] ?? 0)) === fingerprint;
    },
  };
}

/** `windows`: their hashes as numbers of 39 bits, `first` the lower 32, no two equal. */
export function buildSet(windows: Float64Array, bits: number): StoredSet {
  const size = Math.max(windows.length, 1);
  // The numbers are those of the paper, for three places.
  const segmentLength = Math.min(2 ** Math.floor(Math.log(size) / Math.log(3.33) + 2.25), 2 ** 18);
  const factor = Math.max(1.125, 0.875 + (0.25 * Math.log(1_000_000)) / Math.log(Math.max(size, 2)));
  const segments = Math.max(1, Math.ceil((size * factor) / segmentLength) - PLACES + 1);
  for (let seed = 1; seed <= BUILDS_MAX; seed += 1) {
    const shape = { seed, bits, segmentLength, segments };
    const order = peel(windows, shape);
    if (order !== null) return { ...shape, bytes: fill(windows, shape, order) };
  }
  throw new Error('the windows are not all different');
}

interface PeelOrder {
  /** Numbers of windows, those first that were alone at a place first. */
  readonly windows: Uint32Array;
  /** Which of its places that was. */
  readonly alone: Uint8Array;
}

/** Null: with this seed they can't be told apart. */
function peel(all: Float64Array, shape: Omit<StoredSet, 'bytes'>): PeelOrder | null {
  const places = new WindowPlaces(shape);
  const slots = (shape.segments + PLACES - 1) * shape.segmentLength;
  const counts = new Uint8Array(slots);
  const numbers = new Uint32Array(slots);
  for (let window = 0; window < all.length; window += 1) {
    places.findNumber(all[window] ?? 0);
    for (const place of places.at) {
      counts[place] = Math.min((counts[place] ?? 0) + 1, 0xff);
      if (counts[place] === 0xff) return null;
      numbers[place] = (numbers[place] ?? 0) ^ window;
    }
  }
  const windows = new Uint32Array(all.length);
  const alone = new Uint8Array(all.length);
  let found = 0;
  const waiting: number[] = [];
  const look = (place: number): void => void (counts[place] === 1 && waiting.push(place));
  for (let place = 0; place < slots; place += 1) {
    look(place);
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (counts[next] !== 1) continue;
      const window = numbers[next] ?? 0;
      places.findNumber(all[window] ?? 0);
      windows[found] = window;
      alone[found] = places.at.indexOf(next);
      found += 1;
      for (const other of places.at) {
        counts[other] = (counts[other] ?? 0) - 1;
        numbers[other] = (numbers[other] ?? 0) ^ window;
        if (other < place) look(other);
      }
    }
  }
  return found === all.length ? { windows, alone } : null;
}

function fill(all: Float64Array, shape: Omit<StoredSet, 'bytes'>, order: PeelOrder): Uint8Array {
  const places = new WindowPlaces(shape);
  const slots = new Uint8Array((shape.segments + PLACES - 1) * shape.segmentLength);
  for (let at = order.windows.length - 1; at >= 0; at -= 1) {
    const window = order.windows[at] ?? 0;
    places.findNumber(all[window] ?? 0);
    const [a = 0, b = 0, c = 0] = places.at;
    const own = places.at[order.alone[at] ?? 0] ?? 0;
    slots[own] = places.fingerprint ^ (slots[a] ?? 0) ^ (slots[b] ?? 0) ^ (slots[c] ?? 0) ^ (slots[own] ?? 0);
  }
  const bytes = new Uint8Array(byteLengthOf(shape));
  for (let place = 0; place < slots.length; place += 1) {
    const bit = place * shape.bits;
    const byte = Math.floor(bit / 8);
    const value = (slots[place] ?? 0) << (bit % 8);
    bytes[byte] = (bytes[byte] ?? 0) | (value & 0xff);
    bytes[byte + 1] = (bytes[byte + 1] ?? 0) | (value >>> 8);
  }
  return bytes;
}
