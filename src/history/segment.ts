// One segment file of the journal: appended to by its owner, read from its start as far as it can be. Its records have length and checksum before them, so that what was cut off or damaged is seen and the rest is read.
// Files that can't be read are put aside.
import { close, ftruncate, open, readdirSync, write, writeSync } from 'node:fs';
import { open as openFile, rename, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { codeOf } from '../error-text.js';
import { isGone, makeFolderAsync } from '../paths.js';

const openForWriting = promisify(open);
const writeTo = promisify(write);
const truncate = promisify(ftruncate);
const closeDescriptor = promisify(close);

/** Read at a time: a batch of rows of ordinary length, and more than the longest record. */
const CHUNK_BYTES = 128 * 1024;
/** Where a disk fails it fails by blocks: a chunk that can't be read as one is read so much at a time. */
const BLOCK_BYTES = 4 * 1024;
/** Errors that say something of this process or this moment and nothing of the file. */
const PASSING = ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EBUSY', 'EINTR'];

export interface Segment {
  readonly path: string;
  /** Of this many bytes the writes have ended, or the file was found with them. */
  endBytes: number;
  /** Up to here it is in the database. */
  readBytes: number;
  /** Records between the two. */
  rows: number;
  /** Null: sealed, nothing is appended any more. */
  descriptor: number | null;
  /** Damage was found in it: it is put aside instead of removed. */
  isDamaged: boolean;
}

export async function createSegment(path: string): Promise<Segment> {
  const descriptor = await openForWriting(path, 'wx', 0o600);
  return { path, endBytes: 0, readBytes: 0, rows: 0, descriptor, isDamaged: false };
}

/** A segment that somebody else has left. Its records are counted, not kept. */
export async function findSegment(path: string): Promise<Segment> {
  const stats = await stat(path);
  // Opening a pipe would wait for its other end.
  if (!stats.isFile()) throw new Error(`${path} is not a file`);
  const endBytes = stats.size;
  const segment: Segment = { path, endBytes, readBytes: 0, rows: 0, descriptor: null, isDamaged: false };
  for (let at = 0; at < endBytes; ) {
    const { payloads, nextBytes } = await readSegment(segment, at, Number.POSITIVE_INFINITY);
    segment.rows += payloads.length;
    at += nextBytes;
  }
  return segment;
}

/**
 * Appends all of it or rejects. When it rejects, the file is as it was, as far as possible. The segment is sealed then, since the fault
 * may be with this file alone.
 */
export async function appendTo(segment: Segment, bytes: Buffer, rows: number): Promise<void> {
  const { descriptor } = segment;
  if (descriptor === null) throw new Error(`${segment.path} is sealed`);
  try {
    for (let written = 0; written < bytes.length; ) {
      const left = bytes.length - written;
      written += (await writeTo(descriptor, bytes, written, left, segment.endBytes + written)).bytesWritten;
    }
  } catch (error) {
    await truncate(descriptor, segment.endBytes).catch(() => undefined);
    await seal(segment);
    throw error;
  }
  segment.endBytes += bytes.length;
  segment.rows += rows;
}

/**
 * Appends all of it before it returns: a few microseconds, where a write on another thread costs two changes of threads. False when
 * that can't be, whatever the reason: then `appendTo` with the same bytes tries again and says what is wrong.
 */
export function appendNow(segment: Segment, bytes: Buffer, rows: number): boolean {
  const { descriptor, endBytes } = segment;
  if (descriptor === null) return false;
  let written = 0;
  try {
    written = writeSync(descriptor, bytes, 0, bytes.length, endBytes);
  } catch {
    return false;
  }
  if (written < bytes.length) return false;
  segment.endBytes += bytes.length;
  segment.rows += rows;
  return true;
}

export async function seal(segment: Segment): Promise<void> {
  const { descriptor } = segment;
  if (descriptor === null) return;
  segment.descriptor = null;
  await closeDescriptor(descriptor);
}

/** Records from `atBytes` on, at most `count`; `nextBytes` counts from there. What can't be read of the file is damage. */
export async function readSegment(segment: Segment, atBytes: number, count: number): Promise<Frames> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, segment.endBytes - atBytes));
  const file = await openFile(segment.path, 'r');
  try {
    const lostBytes = await readBlocks(file, buffer, atBytes);
    const frames = readFrames(buffer, count, { isEnd: atBytes + buffer.length === segment.endBytes });
    return lostBytes === 0 ? frames : { ...frames, damagedBytes: Math.max(lostBytes, frames.damagedBytes) };
  } finally {
    await file.close();
  }
}

export interface Readable {
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }>;
}

/** Fills the buffer; bytes that the disk doesn't give are zeros, which no record has. Returns how many these are. */
export async function readBlocks(file: Readable, buffer: Buffer, atBytes: number): Promise<number> {
  async function read(at: number, length: number): Promise<number> {
    try {
      return (await file.read(buffer, at, length, atBytes + at)).bytesRead;
    } catch (error) {
      if (isPassing(error)) throw error;
      return 0;
    }
  }
  if ((await read(0, buffer.length)) === buffer.length) return 0;
  let lostBytes = 0;
  for (let at = 0; at < buffer.length; at += BLOCK_BYTES) {
    const length = Math.min(BLOCK_BYTES, buffer.length - at);
    const bytesRead = await read(at, length);
    buffer.fill(0, at + bytesRead, at + length);
    lostBytes += length - bytesRead;
  }
  return lostBytes;
}

/** The same may go well a moment later: nothing is given up for it. */
export const isPassing = (error: unknown): boolean => PASSING.includes(codeOf(error) ?? '');

/** Length, then CRC-32 over the length and the payload; both 32 bits, little-endian. */
const HEADER_BYTES = 8;
const LENGTH_BYTES = 4;
/** A row has five texts of 255 characters, which JSON may write with six bytes each, a URL and metadata with two, and less than 1 KB beside them. */
export const PAYLOAD_MAX_BYTES = 16 * 1024;

export const FRAME_MAX_BYTES = HEADER_BYTES + PAYLOAD_MAX_BYTES;

/**
 * Writes the record, a text and the bytes behind it, to where FRAME_MAX_BYTES are free, and returns where it ends. Throws RangeError for one that is
 * none, or too long.
 */
export function writeFrame(buffer: Buffer, at: number, text: string, end: Uint8Array): number {
  const textBytes = buffer.write(text, at + HEADER_BYTES);
  const length = textBytes + end.length;
  // What doesn't fit is cut, and may be cut before a character of several bytes.
  if (length === 0 || length > PAYLOAD_MAX_BYTES - 3) {
    const bytes = Buffer.byteLength(text) + end.length;
    if (bytes === 0 || bytes > PAYLOAD_MAX_BYTES) throw new RangeError(`A record of ${bytes} bytes`);
  }
  buffer.set(end, at + HEADER_BYTES + textBytes);
  buffer.writeUInt32LE(length, at);
  buffer.writeUInt32LE(checksum(buffer, at, length), at + LENGTH_BYTES);
  return at + HEADER_BYTES + length;
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

const CRC_OF_BYTE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

/** Of the record there: the four bytes of its length are counted here, since a call of zlib's would take longer than they do. */
function checksum(buffer: Buffer, at: number, length: number): number {
  let crc = 0xffffffff;
  for (let shift = 0; shift < 32; shift += 8) {
    crc = (CRC_OF_BYTE[(crc ^ (length >>> shift)) & 0xff] ?? 0) ^ (crc >>> 8);
  }
  const payload = buffer.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length);
  return crc32(payload, (crc ^ 0xffffffff) >>> 0);
}

/** For files that can't be read as they should: for somebody to look at. */
const FOLDER = 'damaged';

export function createDamagedFiles(directory: string) {
  const folder = join(directory, FOLDER);
  const noted = new Set<string>();
  let aside = countIn(folder) ?? 0;

  return {
    /** Those that lie beside, from earlier processes too, and those that could not be moved there. */
    get count(): number {
      return aside + noted.size;
    },
    /** Moves it beside; where that fails it stays and is known to be damaged. Rejects with why. One that is gone is done with. */
    async putAside(path: string): Promise<void> {
      try {
        await makeFolderAsync(folder);
        await rename(path, join(folder, `${basename(dirname(path))}-${basename(path)}`));
        noted.delete(path);
      } catch (error) {
        noted.delete(path);
        if (isGone(path)) return;
        noted.add(path);
        throw error;
      } finally {
        aside = countIn(folder) ?? aside;
      }
    },
    /** It can't be read, and is left where it is. True: that is new. */
    note(path: string): boolean {
      const isNew = !noted.has(path);
      noted.add(path);
      return isNew;
    },
    /** What was noted could be read after all. */
    forget: (path: string) => void noted.delete(path),
    isNoted: (path: string) => noted.has(path),
    /** Somebody may have looked at them and taken them away; another process may have taken over a folder that was noted. */
    recount(): void {
      aside = countIn(folder) ?? aside;
      for (const path of noted) if (isGone(path)) noted.delete(path);
    },
  };
}

/** Null: that can't be found out now. */
function countIn(folder: string): number | null {
  try {
    return readdirSync(folder).length;
  } catch (error) {
    // Not there; or something else has the name, nothing can be put there, and what should be is noted.
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes(codeOf(error) ?? '')) return 0;
    if (isPassing(error)) return null;
    throw error;
  }
}
