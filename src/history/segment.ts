// One segment file of the journal: appended to by its owner, read from its start, removed when all of it is in the database.
import { close, ftruncate, open, write, writeSync } from 'node:fs';
import { open as openFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { type Frames, readFrames } from './frames.js';

const openForWriting = promisify(open);
const writeTo = promisify(write);
const truncate = promisify(ftruncate);
const closeDescriptor = promisify(close);

/** Read at a time: a batch of rows of ordinary length, and more than the longest record. */
const CHUNK_BYTES = 128 * 1024;

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
  const endBytes = (await stat(path)).size;
  const segment: Segment = { path, endBytes, readBytes: 0, rows: 0, descriptor: null, isDamaged: false };
  for (let at = 0; at < endBytes; ) {
    const { payloads, nextBytes } = await readSegment(segment, at, Number.POSITIVE_INFINITY);
    segment.rows += payloads.length;
    at += nextBytes;
  }
  return segment;
}

/**
 * Appends all of it, or rejects with the file as it was, as far as that can be had, and the segment sealed: what is wrong may be
 * wrong with this file alone.
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
export function appendNow(segment: Segment, bytes: Buffer): boolean {
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
  segment.rows += 1;
  return true;
}

export async function seal(segment: Segment): Promise<void> {
  const { descriptor } = segment;
  if (descriptor === null) return;
  segment.descriptor = null;
  await closeDescriptor(descriptor);
}

/** Records from `atBytes` on, at most `count`; `nextBytes` counts from there. */
export async function readSegment(segment: Segment, atBytes: number, count: number): Promise<Frames> {
  const length = Math.min(CHUNK_BYTES, segment.endBytes - atBytes);
  const buffer = Buffer.allocUnsafe(length);
  const file = await openFile(segment.path, 'r');
  try {
    const { bytesRead } = await file.read(buffer, 0, length, atBytes);
    if (bytesRead < length) throw new Error(`${segment.path} has lost bytes`);
  } finally {
    await file.close();
  }
  return readFrames(buffer, count, { isEnd: atBytes + length === segment.endBytes });
}
