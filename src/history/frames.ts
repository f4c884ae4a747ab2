// Records in a file: length and checksum before each, so that what was cut off or damaged is seen and the rest is read.
import { crc32 } from 'node:zlib';

/** Length, then CRC-32 over the length and the payload; both 32 bits, little-endian. */
const HEADER_BYTES = 8;
const LENGTH_BYTES = 4;
/** A row has three texts of 255 characters, which JSON may write with six bytes each, and less than 1 KB beside them. */
export const PAYLOAD_MAX_BYTES = 8 * 1024;

/** Of any record. */
export const FRAME_MAX_BYTES = HEADER_BYTES + PAYLOAD_MAX_BYTES;

/** Writes the record to where FRAME_MAX_BYTES are free, and returns where it ends. Throws RangeError for one that is none, or too long. */
export function writeFrame(buffer: Buffer, at: number, payload: string): number {
  const length = buffer.write(payload, at + HEADER_BYTES);
  // What doesn't fit is cut, and may be cut before a character of several bytes.
  if (length === 0 || length > PAYLOAD_MAX_BYTES - 3) {
    const bytes = Buffer.byteLength(payload);
    if (bytes === 0 || bytes > PAYLOAD_MAX_BYTES) throw new RangeError(`A record of ${bytes} bytes`);
  }
  buffer.writeUInt32LE(length, at);
  buffer.writeUInt32LE(checksum(buffer, at, length), at + LENGTH_BYTES);
  return at + HEADER_BYTES + length;
}

export function frame(payload: string): Buffer {
  const buffer = Buffer.allocUnsafe(FRAME_MAX_BYTES);
  return buffer.subarray(0, writeFrame(buffer, 0, payload));
}

export interface Frames {
  readonly payloads: readonly string[];
  /** Where reading goes on. */
  readonly nextBytes: number;
  /** Bytes that belong to no whole record. */
  readonly damagedBytes: number;
  /** A record at the very end that the file cuts: what a write left that never ended. */
  readonly tornBytes: number;
}

/**
 * Reads at most `count` records. With `isEnd` nothing follows the buffer; otherwise a record that it cuts is left for the next
 * call. After damage the next whole record is searched byte by byte; no payload can pose as one, since JSON has no zero byte.
 */
export function readFrames(buffer: Buffer, count: number, { isEnd }: { readonly isEnd: boolean }): Frames {
  const payloads: string[] = [];
  let at = 0;
  let skipped = 0;
  let damagedBytes = 0;
  /** What is skipped begins like a record that the end cuts. */
  let isCut = false;
  while (at < buffer.length && payloads.length < count) {
    const length = lengthAt(buffer, at);
    if (length === 'cut' && !isEnd) break;
    if (typeof length === 'number') {
      damagedBytes += skipped;
      skipped = 0;
      payloads.push(buffer.toString('utf8', at + HEADER_BYTES, at + HEADER_BYTES + length));
      at += HEADER_BYTES + length;
    } else {
      if (skipped === 0) isCut = length === 'cut';
      skipped += 1;
      at += 1;
    }
  }
  const isTail = isEnd && isCut && at === buffer.length;
  return {
    payloads,
    nextBytes: at,
    damagedBytes: isTail ? damagedBytes : damagedBytes + skipped,
    tornBytes: isTail ? skipped : 0,
  };
}

/** Of the whole record there, or why there is none. */
function lengthAt(buffer: Buffer, at: number): number | 'cut' | 'damaged' {
  if (buffer.length - at < HEADER_BYTES) return 'cut';
  const length = buffer.readUInt32LE(at);
  if (length === 0 || length > PAYLOAD_MAX_BYTES) return 'damaged';
  if (buffer.length - at < HEADER_BYTES + length) return 'cut';
  return buffer.readUInt32LE(at + LENGTH_BYTES) === checksum(buffer, at, length) ? length : 'damaged';
}

function checksum(buffer: Buffer, at: number, length: number): number {
  const payload = buffer.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length);
  return crc32(payload, crc32(buffer.subarray(at, at + LENGTH_BYTES)));
}
