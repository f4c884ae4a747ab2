// The memory of contents: buffers lent out within one budget, so that any number of clients stays inside a stated bound.
import { Failure } from '../errors.js';
import { CONTENT_LIMIT_BYTES, SMALL_UPLOAD_BYTES } from '../limits.js';

export interface Lease {
  readonly buffer: ArrayBuffer;
  /** Gives the memory back, with the buffer as it came back from the scan (its old reference is detached), or null if it is lost. */
  release(buffer: ArrayBuffer | null): void;
}

export interface UploadMemory {
  /**
   * Lends a buffer of at least so many bytes (at most the content limit), at once if there is room.
   * Rejects with Failure `unavailable` when none comes free in time, with the signal's reason when it aborts; whoever gets its
   * memory at once is not asked for the signal.
   */
  lend(bytes: number, signalOf: () => AbortSignal): Lease | Promise<Lease>;
  /** Bytes lent out. */
  readonly lentBytes: number;
  /** Uploads that wait for memory. */
  readonly waiting: number;
}

export interface MemoryOptions {
  readonly budgetBytes: number;
  /** How long one may wait. */
  readonly waitMs: number;
  /** What the budget is for, in the words of the refusal. */
  readonly use?: 'uploads' | 'downloads';
}

interface Waiter {
  readonly size: number;
  readonly grant: (lease: Lease) => void;
}

/** Smallest buffer: below it the bookkeeping costs more than the bytes. */
const SMALLEST_BYTES = 16 * 1024;
/** Share of the budget that large uploads may fill: small ones always find room beside them. */
const LARGE_SHARE = 7 / 8;
const RETRY_SECONDS = 5;

export function createUploadMemory({ budgetBytes, waitMs, use = 'uploads' }: MemoryOptions): UploadMemory {
  const spare = new Map<number, ArrayBuffer[]>();
  const lanes = {
    small: { limitBytes: budgetBytes, waiters: new Set<Waiter>() },
    large: { limitBytes: Math.max(CONTENT_LIMIT_BYTES, budgetBytes * LARGE_SHARE), waiters: new Set<Waiter>() },
  };
  let lentBytes = 0;
  let spareBytes = 0;

  function lend(bytes: number, signalOf: () => AbortSignal): Lease | Promise<Lease> {
    const size = bufferSize(bytes);
    const lane = size <= SMALL_UPLOAD_BYTES ? lanes.small : lanes.large;
    if (lane.waiters.size === 0 && lentBytes + size <= lane.limitBytes) return leaseOf(size);
    const signal = signalOf();
    if (signal.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const leave = (reason: unknown): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        lane.waiters.delete(waiter);
        if (reason === null) return;
        reject(reason);
        // It may have been the first in line, and too large for the room that is there.
        grantWaiters();
      };
      const onAbort = (): void => leave(signal.reason);
      const tooLong = new Failure('unavailable', `Too many ${use} at once`, RETRY_SECONDS);
      const timer = setTimeout(() => leave(tooLong), waitMs);
      const waiter: Waiter = {
        size,
        grant: (lease) => {
          leave(null);
          resolve(lease);
        },
      };
      lane.waiters.add(waiter);
      signal.addEventListener('abort', onAbort);
    });
  }

  function leaseOf(size: number): Lease {
    lentBytes += size;
    let returned = false;
    return {
      buffer: takeSpare(size) ?? new ArrayBuffer(size),
      release(buffer) {
        if (returned) return;
        returned = true;
        lentBytes -= size;
        if (buffer !== null && buffer.byteLength === size) keepSpare(size, buffer);
        grantWaiters();
      },
    };
  }

  function takeSpare(size: number): ArrayBuffer | undefined {
    const buffer = spare.get(size)?.pop();
    if (buffer !== undefined) spareBytes -= size;
    // A new buffer needs room: those kept for other sizes go first, all at once, since this is rare.
    else if (lentBytes + spareBytes > budgetBytes) {
      spare.clear();
      spareBytes = 0;
    }
    return buffer;
  }

  function keepSpare(size: number, buffer: ArrayBuffer): void {
    if (lentBytes + spareBytes + size > budgetBytes) return;
    const kept = spare.get(size);
    if (kept === undefined) spare.set(size, [buffer]);
    else kept.push(buffer);
    spareBytes += size;
  }

  function grantWaiters(): void {
    for (const lane of [lanes.small, lanes.large]) {
      for (const waiter of lane.waiters) {
        if (lentBytes + waiter.size > lane.limitBytes) break;
        waiter.grant(leaseOf(waiter.size));
      }
    }
  }

  return {
    lend,
    get lentBytes() {
      return lentBytes;
    },
    get waiting() {
      return lanes.small.waiters.size + lanes.large.waiters.size;
    },
  };
}

/** Powers of two up to the content limit: so that a returned buffer fits the next upload. */
function bufferSize(bytes: number): number {
  let size = SMALLEST_BYTES;
  while (size < bytes) size *= 2;
  return Math.min(size, CONTENT_LIMIT_BYTES);
}
