// How common bytes are in clean content: as it was counted once (bench/prior), which a server knows that has learned nothing, and as `sluice signatures
// tune` and a server have learned it, which is kept in the data directory.
import { createHash } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { makeFolderAsync, priorPath } from '../../../paths.js';
import type { Gate } from './candidates.js';
import {
  byteLengthOf,
  type HashedWindow,
  mixed,
  numberOf,
  openSet,
  type StoredSet,
  type WindowSet,
} from './window-set.js';

const WINDOW_BYTES = 6;
const BEGINNING_BYTES = 4;
/** The file: this, the length of the header in 4 bytes, the header, the sets one behind the other. */
export const MAGIC = 'sluice windows 1\n';
const LENGTH_BYTES = 4;
/** The kind of content that a signature for any kind is for. */
const ANY = 0;
/** Of a class with fewer documents nothing is known. */
const UNITS_MIN = 20;
/** Bytes that are two different ones at most are taken to be everywhere: zeros, spaces, what fills. */
const EVERYWHERE = 1;

const setShape = z.object({ seed: z.number(), bits: z.number(), segmentLength: z.number(), segments: z.number() });
const priorHeader = z.object({
  /** Of all classes: what formats say, counted or not. Its set lies behind those of the classes. */
  formats: setShape,
  /** Classes are libclamav's targets. */
  classes: z.array(
    z.object({
      target: z.number(),
      /** Some documents of one package each. */
      units: z.number(),
      /** Of these, in how large a share a window of the set lies, on average. */
      share: z.number(),
      set: setShape,
      /** The first bytes of layers, as hexadecimal digits, with the share that begins so. */
      beginnings: z.record(z.string(), z.number()),
    }),
  ),
});
export type PriorHeader = z.infer<typeof priorHeader>;

export type Prior = ReturnType<typeof openPrior>;

/** More don't make it any rarer. */
const UNSEEN_MAX = 6;

interface Class {
  readonly share: number;
  readonly set: WindowSet;
  readonly beginnings: ReadonlyMap<string, number>;
}

/** With what was learned beside it. */
export async function readPrior(learned = NOTHING_LEARNED): Promise<Prior> {
  return openPrior(await readFile(priorPath), learned);
}

export interface PriorFile extends PriorHeader {
  /** Of the classes in their order, then of the formats. */
  readonly sets: readonly StoredSet[];
}

/** Throws where it is damaged. */
export function parsePrior(bytes: Buffer): PriorFile {
  const start = MAGIC.length + LENGTH_BYTES;
  if (bytes.toString('latin1', 0, MAGIC.length) !== MAGIC) throw new Error('this is no file of windows');
  const length = bytes.readUInt32LE(MAGIC.length);
  const header = priorHeader.parse(JSON.parse(bytes.toString('utf8', start, start + length)));
  let at = start + length;
  const sets = [...header.classes.map(({ set }) => set), header.formats].map((shape) => {
    const end = at + byteLengthOf(shape);
    if (end > bytes.length) throw new Error('the file of windows is cut');
    const set = { ...shape, bytes: bytes.subarray(at, end) };
    at = end;
    return set;
  });
  return { ...header, sets };
}

/** It is read when it is first asked: a start whose gates are made needs its digest alone. What is asked throws where it is damaged. */
export function openPrior(bytes: Buffer, learned: LearnedWindows = NOTHING_LEARNED) {
  let read: ReadonlyMap<number, Class> | null = null;
  const byTarget = (): ReadonlyMap<number, Class> => {
    read ??= classesOf(parsePrior(bytes), learned);
    return read;
  };
  const digest = createHash('sha256')
    .update(bytes)
    .update(learned.digest ?? '')
    .digest('hex');
  return {
    /** Of the file, and of what was learned. */
    digest,
    /** At most so large a share of clean contents has the gate; 0: it was not seen; null: nothing is known. */
    shareOf: (gate: Gate): number | null => shareOf(byTarget(), gate),
    /** Of a gate that was not seen: how many of its windows were not, as far as `UNSEEN_MAX`. */
    unseenOf: (gate: Gate): number => unseenOf(byTarget(), gate),
    /** Hashes of its windows that were not seen, as numbers of 39 bits: of those that it has in any kind of content that it is for. */
    unseenWindows: (gate: Gate): readonly number[] => unseenWindows(byTarget(), gate),
    /** Those of it that make the gate a common one as soon as all are learned, as far as they were not seen; null: no windows do. */
    decidingWindows: (gate: Gate): readonly number[] | null => decidingWindows(byTarget(), gate),
  };
}

function classesOf({ classes, sets }: PriorFile, learned: LearnedWindows): ReadonlyMap<number, Class> {
  const opened = sets.map(openSet);
  const formats = opened[classes.length] ?? NO_WINDOWS;
  const byTarget = new Map<number, Class>();
  for (const [index, { target, units, share, beginnings }] of classes.entries()) {
    const set = together(opened[index] ?? NO_WINDOWS, formats, learned);
    if (units >= UNITS_MIN) byTarget.set(target, { share, set, beginnings: new Map(Object.entries(beginnings)) });
  }
  return byTarget;
}

const NO_WINDOWS: WindowSet = { has: () => false };

function together(counted: WindowSet, formats: WindowSet, learned: LearnedWindows): WindowSet {
  return { has: (window) => counted.has(window) || formats.has(window) || learned.has(numberOf(window)) };
}

function shareOf(byTarget: ReadonlyMap<number, Class>, { target, offset, pattern }: Gate): number | null {
  const [windows, narrow] = formsOf(offset, pattern);
  const beginning = offset === '0' ? beginningOf(pattern) : null;
  if (windows === null && beginning === null) return null;
  const ofTarget = (known: Class, one: number): number =>
    Math.max(shareIn(known, one, windows ?? NONE, beginning), narrow === null ? 0 : shareIn(known, one, narrow, null));
  if (target !== ANY) {
    const known = byTarget.get(target);
    return known === undefined ? null : ofTarget(known, target);
  }
  let share = 0;
  for (const [one, known] of byTarget) share = Math.max(share, ofTarget(known, one));
  return share;
}

const ZERO = '00';
const WIDE_BEGINNING = /^(?:00|..00|\([^)]*\))/;

/** Wide characters as bytes: what is said in one of them is said in the other as well. Null: it has none. */
function narrowed(pattern: string): string | null {
  // Nearly always it isn't, as its first two bytes say.
  if (!WIDE_BEGINNING.test(pattern)) return null;
  const cells = pattern.match(CELLS) ?? [];
  const zeros = cells[0] === ZERO ? 0 : 1;
  const isWide = cells.every((cell, at) => (cell === ZERO) === (at % 2 === zeros));
  return isWide ? cells.filter((cell) => cell !== ZERO).join('') : null;
}

/** Where it is most likely, in wide or narrow characters. */
function unseenOf(byTarget: ReadonlyMap<number, Class>, { target, offset, pattern }: Gate): number {
  const forms = formsOf(offset, pattern);
  let least = UNSEEN_MAX;
  for (const [one, { set }] of byTarget) {
    if (target !== ANY && target !== one) continue;
    for (const windows of forms) if (windows !== null) least = countUnseen(set, one, windows, least);
  }
  return least;
}

function countUnseen(set: WindowSet, target: number, windows: WindowNumbers, most: number): number {
  let unseen = 0;
  for (let at = 0; at < windows.length && unseen < most; at += 2) {
    if (!set.has(hashWindow(target, windows[at] ?? 0, windows[at + 1] ?? 0))) unseen += 1;
  }
  return unseen;
}

/** The windows of a pattern in its own characters, and in narrow ones where these are wide. Null: it has none. */
type Forms = readonly [own: WindowNumbers | null, narrow: WindowNumbers | null];
const NONE: WindowNumbers = [];

/** Of the gate that was asked about last. */
let known: { readonly offset: string; readonly pattern: string; readonly forms: Forms } | null = null;

function formsOf(offset: string, pattern: string): Forms {
  if (known?.pattern === pattern && known.offset === offset) return known.forms;
  const narrow = offset === '*' ? narrowed(pattern) : null;
  const forms: Forms = [windowsOf(pattern), narrow === null ? null : windowsOf(narrow)];
  known = { offset, pattern, forms };
  return forms;
}

function unseenWindows(byTarget: ReadonlyMap<number, Class>, { target, offset, pattern }: Gate): readonly number[] {
  const windows = formsOf(offset, pattern).flatMap((one) => one ?? []);
  return [...byTarget].flatMap(([one, { set }]) => {
    if (target !== ANY && target !== one) return [];
    return hashed(one, windows)
      .filter((hash) => !set.has(hash))
      .map(numberOf);
  });
}

/** Where it stands at the beginning, that has its own say. Of a gate for any kind of content those of one kind will do. */
function decidingWindows(
  byTarget: ReadonlyMap<number, Class>,
  { target, offset, pattern }: Gate,
): readonly number[] | null {
  const known = byTarget.get(target);
  const [own] = formsOf(offset, pattern);
  if (known === undefined || own === null || own.length === 0 || offset === '0') return null;
  return hashed(target, own)
    .filter((hash) => !known.set.has(hash))
    .map(numberOf);
}

/** No more than the rarest part of it. */
function shareIn(known: Class, target: number, windows: WindowNumbers, beginning: FirstBytes | null): number {
  let least = beginning === null ? EVERYWHERE : shareOfBeginning(known, beginning);
  for (let at = 0; at < windows.length && least > 0; at += 2) {
    const isKnown = known.set.has(hashWindow(target, windows[at] ?? 0, windows[at + 1] ?? 0));
    least = Math.min(least, isKnown ? known.share : 0);
  }
  return least;
}

/** Three bytes and three bytes of each, one behind the other: small numbers, and no object for each of millions. */
type WindowNumbers = readonly number[];

/** Of all windows of some bytes that a set may have. */
export function hashesOf(target: number, bytes: Buffer): HashedWindow[] {
  return hashed(target, windowsOf(bytes.toString('hex')) ?? NONE);
}

function hashed(target: number, windows: WindowNumbers): HashedWindow[] {
  return Array.from({ length: windows.length / 2 }, (_, at) =>
    hashWindow(target, windows[2 * at] ?? 0, windows[2 * at + 1] ?? 0),
  );
}

/** As native/windows.h has it. */
function hashWindow(target: number, high: number, low: number): HashedWindow {
  const first = mixed(low ^ (target << 24) ^ Math.imul(high, 0x9e3779b1));
  return { first, second: mixed(high ^ Math.imul(first, 0x27d4eb2f)) >>> 25 };
}

function hasFewBytes(high: number, low: number): boolean {
  const first = low & 0xff;
  let other = first;
  for (let place = 1; place < WINDOW_BYTES; place += 1) {
    const byte = ((place < 3 ? low : high) >>> (8 * (place % 3))) & 0xff;
    if (byte === first || byte === other) continue;
    if (other !== first) return false;
    other = byte;
  }
  return true;
}

const OPEN = -1;
/** Of a pattern, one for each byte: a choice, or two digits. */
export const CELLS = /\([^()]*\)|../g;
const CASE_BIT = 0x20;
const EITHER_CASE = /^\(([0-9a-f]{2})\|([0-9a-f]{2})\)$/;

/**
 * Windows of the bytes that are fixed, but for those of two different bytes; of a gate that takes letters of either case, all in small ones. Null: no window
 * of bytes is fixed.
 */
function windowsOf(pattern: string): WindowNumbers | null {
  const cells = cellsOf(pattern);
  const windows: number[] = [];
  let high = 0;
  let low = 0;
  let closed = 0;
  let hasAny = false;
  for (let at = 0; at < cells.length; at += 1) {
    const byte = cells[at] ?? OPEN;
    closed = byte === OPEN ? 0 : closed + 1;
    high = ((high << 8) | (low >>> 16)) & 0xffffff;
    low = ((low << 8) | (byte & 0xff)) & 0xffffff;
    if (closed < WINDOW_BYTES) continue;
    hasAny = true;
    if (!hasFewBytes(high, low)) windows.push(high, low);
  }
  return hasAny ? windows : null;
}

/** Of each byte, or `OPEN`. */
function cellsOf(pattern: string): ArrayLike<number> {
  if (!pattern.includes('(') && !pattern.includes('?')) return Buffer.from(pattern, 'hex');
  const texts = pattern.match(CELLS) ?? [];
  const letters = texts.map((text) => letterOf(text));
  const isAnyCase = letters.some((letter) => letter !== null);
  return texts.map((text, at) => {
    const letter = letters[at] ?? null;
    if (letter !== null) return letter;
    if (!/^[0-9a-f]{2}$/.test(text)) return OPEN;
    const byte = Number.parseInt(text, 16);
    return isAnyCase && byte >= 0x41 && byte <= 0x5a ? byte | CASE_BIT : byte;
  });
}

/** The small one of a letter of either case; null: it is something else. */
function letterOf(text: string): number | null {
  const [, one, other] = EITHER_CASE.exec(text) ?? [];
  if (one === undefined || other === undefined) return null;
  const small = Number.parseInt(one, 16) | CASE_BIT;
  const isLetter = small >= 0x61 && small <= 0x7a && small === (Number.parseInt(other, 16) | CASE_BIT);
  return isLetter ? small : null;
}

/** A byte for each place; `OPEN` for any. */
type FirstBytes = readonly number[];

/** Null: all of it is open. */
function beginningOf(pattern: string): FirstBytes | null {
  const texts = (pattern.match(CELLS) ?? []).slice(0, BEGINNING_BYTES);
  const bytes = texts.map((text) => (/^[0-9a-f]{2}$/.test(text) ? Number.parseInt(text, 16) : OPEN));
  return bytes.some((byte) => byte !== OPEN) ? bytes : null;
}

/** Of all that begin so, where a byte is open. */
function shareOfBeginning({ beginnings }: Class, beginning: FirstBytes): number {
  const isFixed = beginning.length === BEGINNING_BYTES && !beginning.includes(OPEN);
  if (isFixed) return beginnings.get(Buffer.from(beginning).toString('hex')) ?? 0;
  let sum = 0;
  for (const [hex, share] of beginnings) {
    const bytes = Buffer.from(hex, 'hex');
    if (beginning.every((byte, at) => byte === OPEN || byte === bytes[at])) sum += share;
  }
  return sum;
}

const LEARNED_FILE = 'learned.bin';
/** Twelve thousand clean files have some 250,000 of all that gates could be made of. */
const WINDOWS_MAX = 1_000_000;
/** What is in fewer contents stays a gate: a second look costs about as much as so many signatures that every content is asked about. */
const CONTENTS_PER_HIT_MAX = 2_000;

export interface LearnedWindows {
  /** Of what is known; null: nothing is. */
  readonly digest: string | null;
  readonly size: number;
  /** `window`: its hash as a number of 39 bits. */
  has(window: number): boolean;
}

const NOTHING_LEARNED: LearnedWindows = { digest: null, size: 0, has: () => false };

/** Rejects when there is something that can't be read. */
export async function readLearned(directory: string): Promise<LearnedWindows> {
  const bytes = await readBytes(directory);
  if (bytes.length === 0) return NOTHING_LEARNED;
  const windows = new Set(numbersOf(bytes));
  return {
    digest: createHash('sha256').update(bytes).digest('hex'),
    size: windows.size,
    has: (window) => windows.has(window),
  };
}

/** None where nothing was learned. */
async function readBytes(directory: string): Promise<Buffer> {
  return await readFile(join(directory, LEARNED_FILE)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  });
}

/** Eight bytes for each; of a damaged file what is there. */
function numbersOf(bytes: Buffer): Float64Array {
  const whole = bytes.length - (bytes.length % Float64Array.BYTES_PER_ELEMENT);
  return new Float64Array(Uint8Array.from(bytes.subarray(0, whole)).buffer);
}

/**
 * Those that are common, the most common first. `counts`: a window and in how many contents it was, in turns; of so many contents. `leastTimes`: in
 * fewer it says nothing.
 */
export function commonWindows(counts: Float64Array, contents: number, leastTimes = 1): readonly number[] {
  const found: (readonly [window: number, count: number])[] = [];
  for (let at = 0; at < counts.length; at += 2) {
    const [window = 0, count = 0] = counts.subarray(at, at + 2);
    if (count >= leastTimes && count * CONTENTS_PER_HIT_MAX >= contents) found.push([window, count]);
  }
  return found.sort(([, one], [, other]) => other - one).map(([window]) => window);
}

/** Beside what is known. Resolves with how many were not known before. */
export async function keepLearned(directory: string, found: Iterable<number>): Promise<number> {
  const known = numbersOf(await readBytes(directory));
  const windows = new Set(known);
  for (const window of found) {
    if (windows.size < WINDOWS_MAX) windows.add(window);
  }
  const fresh = windows.size - known.length;
  if (fresh === 0) return 0;
  await makeFolderAsync(directory);
  const path = join(directory, LEARNED_FILE);
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, Buffer.from(Float64Array.from(windows).buffer));
  await rename(draft, path);
  return fresh;
}
