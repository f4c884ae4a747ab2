// The arena: memory that scan threads share, made once and lent in blocks, so that a content is written into it once and scanned there.
import { processAddon } from '../../process-addon.js';

export type Block = Uint8Array<SharedArrayBuffer>;

/** Smallest block: below it the bookkeeping costs more than the bytes. */
const SMALLEST_BYTES = 16 * 1024;
/** Memory is asked for in pieces of this size, or of two blocks where these are larger. Pages that nobody has written to cost nothing. */
const SEGMENT_BYTES = 4 * 1024 * 1024;

/** Powers of two up to the given limit (a content's own, or that of all): so that a returned block fits the next content. */
export function blockSize(bytes: number, limitBytes: number): number {
  let size = SMALLEST_BYTES;
  while (size < bytes) size *= 2;
  return Math.min(size, limitBytes);
}

/** What nobody has needed for so long goes back to the kernel, so much of it at one time: a thousand blocks take some milliseconds. */
const REST_MS = 2_000;
const REST_BYTES_MOST = 16 * 1024 * 1024;

/** Blocks of one size that nobody has. */
class Shelf {
  /** Whose pages are there; the last one first, whose are likely in the processor's cache. */
  readonly kept: Block[] = [];
  /** Whose pages the kernel has. */
  readonly #empty: Block[] = [];
  readonly #size: number;
  /** So many were kept all the time since the last look. */
  unneeded = 0;

  constructor(size: number) {
    this.#size = size;
  }

  takeEmpty(): Block {
    return this.#empty.pop() ?? this.#grow();
  }

  empty(blocks: readonly Block[]): void {
    for (const block of blocks) discardPages(block);
    this.#empty.push(...blocks);
  }

  /** So many of those that were kept longest. Returns their bytes. */
  emptyKept(count: number): number {
    const blocks = this.kept.splice(0, count);
    this.empty(blocks);
    this.unneeded = Math.min(this.unneeded, this.kept.length);
    return blocks.length * this.#size;
  }

  /** Those that nobody has needed since the last look, or so many bytes of them. Returns how many these are. */
  rest(bytesMost: number): number {
    const bytes = this.emptyKept(Math.min(this.unneeded, Math.ceil(bytesMost / this.#size)));
    this.unneeded = this.kept.length;
    return bytes;
  }

  #grow(): Block {
    const blocks = Math.max(2, Math.floor(SEGMENT_BYTES / this.#size));
    const segment = new SharedArrayBuffer(blocks * this.#size);
    // The allocator may have had them, and touched them.
    discardPages(new Uint8Array(segment));
    for (let index = blocks - 1; index > 0; index -= 1) {
      this.#empty.push(new Uint8Array(segment, index * this.#size, this.#size));
    }
    return new Uint8Array(segment, 0, this.#size);
  }
}

/**
 * Blocks of a size lie in segments of their own, which are never given back: a thread may know them. So there is no fragmentation, and
 * what the arena takes is what is lent and what is kept for the next content, within the budget together; the pages of other blocks
 * go back to the kernel, and only their addresses stay.
 */
export function createArena(budgetBytes: number) {
  const shelves = new Map<number, Shelf>();
  let keptBytes = 0;
  let isResting = false;

  function newShelf(size: number): Shelf {
    const shelf = new Shelf(size);
    shelves.set(size, shelf);
    return shelf;
  }

  function rest(): void {
    let most = REST_BYTES_MOST;
    for (const shelf of shelves.values()) {
      const bytes = shelf.rest(most);
      keptBytes -= bytes;
      most = Math.max(0, most - bytes);
    }
    isResting = false;
    if (keptBytes > 0) restLater();
  }

  function restLater(): void {
    isResting = true;
    setTimeout(rest, REST_MS).unref();
  }

  return {
    /** A block of exactly this size, one of `blockSize`, which `lentBytes` has already. It still contains bytes of an earlier content. */
    take(size: number, lentBytes: number): Block {
      const shelf = shelves.get(size) ?? newShelf(size);
      const block = shelf.kept.pop();
      if (block !== undefined) {
        keptBytes -= size;
        shelf.unneeded = Math.min(shelf.unneeded, shelf.kept.length);
        return block;
      }
      // A new block needs room: those kept for other sizes go first, all at once, since this is rare.
      if (lentBytes + keptBytes > budgetBytes) {
        for (const other of shelves.values()) keptBytes -= other.emptyKept(other.kept.length);
      }
      return shelf.takeEmpty();
    },
    /** Takes a block back, for the next content. */
    give(block: Block, lentBytes: number): void {
      const size = block.length;
      if (size === 0) return;
      const shelf = shelves.get(size) ?? newShelf(size);
      if (lentBytes + keptBytes + size > budgetBytes) {
        shelf.empty([block]);
        return;
      }
      shelf.kept.push(block);
      keptBytes += size;
      if (!isResting) restLater();
    },
  };
}

/** Below it the call of the native copy costs more than it saves. */
const NATIVE_COPY_BYTES = 8 * 1024;

/** Puts the bytes there. `set` copies into shared memory byte by byte where the two aren't aligned alike; `fill` is a memcpy. */
export function copyInto(block: Block, at: number, bytes: Uint8Array): void {
  if (bytes.length < NATIVE_COPY_BYTES) block.set(bytes, at);
  else Buffer.from(block.buffer, block.byteOffset + at, bytes.length).fill(bytes);
}

/**
 * The whole pages among the bytes are zeros from now on, and take no memory until something is written to them. Without the addon they
 * stay as they are.
 */
function discardPages(bytes: Uint8Array): void {
  processAddon()?.discardPages(bytes);
}
