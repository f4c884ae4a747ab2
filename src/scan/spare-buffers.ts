// Buffers that were lent and came back, for the next content: making one costs more than filling it.

export interface SpareBuffers {
  /** A buffer of exactly this size, one of `bufferSize`, which counts as lent already. What is in it is somebody else's. */
  take(size: number): ArrayBuffer;
  /** Keeps it if there is room for it; one that isn't of this size was lost on the way. */
  give(size: number, buffer: ArrayBuffer | null): void;
}

/** Smallest buffer: below it the bookkeeping costs more than the bytes. */
const SMALLEST_BYTES = 16 * 1024;

/** Powers of two up to the given limit: so that a returned buffer fits the next content. */
export function bufferSize(bytes: number, limitBytes: number): number {
  let size = SMALLEST_BYTES;
  while (size < bytes) size *= 2;
  return Math.min(size, limitBytes);
}

/** What is kept and what is lent stay within the budget together. */
export function createSpareBuffers(budgetBytes: number, lentBytes: () => number): SpareBuffers {
  const spare = new Map<number, ArrayBuffer[]>();
  let spareBytes = 0;
  return {
    take(size) {
      const buffer = spare.get(size)?.pop();
      if (buffer !== undefined) {
        spareBytes -= size;
        return buffer;
      }
      // A new buffer needs room: those kept for other sizes go first, all at once, since this is rare.
      if (lentBytes() + spareBytes > budgetBytes) {
        spare.clear();
        spareBytes = 0;
      }
      return new ArrayBuffer(size);
    },
    give(size, buffer) {
      if (buffer === null || size === 0 || buffer.byteLength !== size) return;
      if (lentBytes() + spareBytes + size > budgetBytes) return;
      const kept = spare.get(size);
      if (kept === undefined) spare.set(size, [buffer]);
      else kept.push(buffer);
      spareBytes += size;
    },
  };
}
