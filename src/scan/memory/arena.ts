// The arena: memory that scan threads share, made once and lent in blocks, so that a content is written into it once and scanned there.
import { processAddon } from '../../process-addon.js';

export type Block = Uint8Array<SharedArrayBuffer>;

export interface Arena {
  /** A block of exactly this size, one of `blockSize`, which counts as lent already. It still contains bytes of an earlier content. */
  take(size: number): Block;
  /** Takes a block back, for the next content. */
  give(block: Block): void;
}

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

/**
 * Blocks of a size lie in segments of their own, which are never given back: a thread may know them. So there is no fragmentation, and
 * what the arena takes is what is lent and what is kept for the next content, within the budget together; the pages of other blocks
 * go back to the kernel, and only their addresses stay.
 */
export function createArena(budgetBytes: number, lentBytes: () => number): Arena {
  /** Whose pages are there; the last one first, whose are likely in the processor's cache. */
  const kept = new Map<number, Block[]>();
  /** Whose pages the kernel has. */
  const empty = new Map<number, Block[]>();
  let keptBytes = 0;

  function grow(size: number): Block {
    const blocks = Math.max(2, Math.floor(SEGMENT_BYTES / size));
    const segment = new SharedArrayBuffer(blocks * size);
    // The allocator may have had them, and touched them.
    discardPages(new Uint8Array(segment));
    const list = listOf(empty, size);
    for (let index = blocks - 1; index > 0; index -= 1) list.push(new Uint8Array(segment, index * size, size));
    return new Uint8Array(segment, 0, size);
  }

  /** All at once, since this is rare. */
  function empties(): void {
    for (const [size, blocks] of kept) {
      for (const block of blocks) discardPages(block);
      listOf(empty, size).push(...blocks);
      blocks.length = 0;
    }
    keptBytes = 0;
  }

  return {
    take(size) {
      const block = kept.get(size)?.pop();
      if (block !== undefined) {
        keptBytes -= size;
        return block;
      }
      // A new block needs room: those kept for other sizes go first.
      if (lentBytes() + keptBytes > budgetBytes) empties();
      return empty.get(size)?.pop() ?? grow(size);
    },
    give(block) {
      const size = block.length;
      if (size === 0) return;
      if (lentBytes() + keptBytes + size > budgetBytes) {
        discardPages(block);
        listOf(empty, size).push(block);
        return;
      }
      listOf(kept, size).push(block);
      keptBytes += size;
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

function listOf(lists: Map<number, Block[]>, size: number): Block[] {
  const known = lists.get(size);
  if (known !== undefined) return known;
  const list: Block[] = [];
  lists.set(size, list);
  return list;
}
