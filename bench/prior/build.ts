// Makes the file of windows that ships from what windows.c has counted, and from what formats say: for each class a set of hashes.
import { open, readFile, writeFile } from 'node:fs/promises';
import { hashesOf, MAGIC, type PriorHeader, parsePrior } from '../../src/engine/clamav/gates/prior.js';
import { buildSet, numberOf, type StoredSet } from '../../src/engine/clamav/gates/window-set.js';
import { formatTexts } from './formats.js';

/** Classes are libclamav's targets, as in windows.c. */
const CLASSES = 13;
const LENGTH_BYTES = 4;
const BEGINNING_RECORD_BYTES = 12;
const COUNT_BITS = 10;
const COUNT_MAX = (1 << COUNT_BITS) - 1;
const CLASS_BITS = 4;
/** Of contents that begin as their format says, at least. */
const FORMAT_SHARE = 0.01;
/** One set has what formats say of all classes: others are taken for one of them once in 2^8 times. */
const FORMAT_BITS = 8;

/** Which windows of a class are kept: those in so many units at least, or so large a share of them, whatever is more. */
export interface Level {
  readonly units: number;
  readonly share: number;
  /** Of a fingerprint: of windows that are not in the set one in 2^bits is taken for one that is. */
  readonly bits: number;
}

interface Beginning {
  readonly target: number;
  /** Hexadecimal. */
  readonly bytes: string;
  readonly units: number;
}

/** Of one count, or of several as if they were one: a window that is in one unit alone of each is not known. */
export interface Counted {
  /** By class. */
  readonly units: readonly number[];
  readonly beginnings: readonly Beginning[];
  /** By class and count. */
  readonly windows: readonly Uint32Array[];
  /** Two words each, no window of a class twice. */
  readonly records: Uint32Array;
}

interface Record {
  readonly target: number;
  readonly count: number;
  readonly first: number;
  readonly second: number;
}

/** From the lowest bit: the count, the class, the hash. */
function recordAt(records: Uint32Array, at: number): Record {
  const [low = 0, high = 0] = [records[at], records[at + 1]];
  const below = COUNT_BITS + CLASS_BITS;
  return {
    count: low & COUNT_MAX,
    target: (low >>> COUNT_BITS) & ((1 << CLASS_BITS) - 1),
    first: ((low >>> below) | (high << (32 - below))) >>> 0,
    second: high >>> below,
  };
}

interface CountFile {
  readonly units: readonly number[];
  readonly beginnings: readonly Beginning[];
  readonly records: Buffer;
}

/** As windows.c has written it. */
async function readFileOfCounts(path: string): Promise<CountFile> {
  const file = await open(path);
  try {
    const read = async (at: number, bytes: number): Promise<Buffer> => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at);
      if (bytesRead < bytes) throw new Error(`${path} is cut`);
      return buffer;
    };
    const fixed = 4 * (CLASSES + 1);
    const head = await read(0, fixed);
    const units = Array.from({ length: CLASSES }, (_, target) => head.readUInt32LE(4 * target));
    const count = head.readUInt32LE(4 * CLASSES);
    const found = await read(fixed, count * BEGINNING_RECORD_BYTES);
    const beginnings = Array.from({ length: count }, (_, index) => {
      const at = index * BEGINNING_RECORD_BYTES;
      return {
        target: found.readUInt32LE(at),
        bytes: found.toString('hex', at + 4, at + 8),
        units: found.readUInt32LE(at + 8),
      };
    });
    const start = fixed + found.length;
    const { size } = await file.stat();
    return { units, beginnings, records: await read(start, size - start) };
  } finally {
    await file.close();
  }
}

export async function readCounts(paths: readonly string[]): Promise<Counted> {
  const files: CountFile[] = [];
  for (const path of paths) files.push(await readFileOfCounts(path));
  const bytes = files.reduce((sum, { records }) => sum + records.length, 0);
  const all = new Uint8Array(bytes);
  let at = 0;
  for (const { records } of files) {
    all.set(records, at);
    at += records.length;
  }
  const records = merged(all.buffer);
  const units = Array.from({ length: CLASSES }, (_, target) =>
    files.reduce((sum, one) => sum + (one.units[target] ?? 0), 0),
  );
  const windows = units.map(() => new Uint32Array(COUNT_MAX + 1));
  for (let index = 0; index < records.length; index += 2) {
    const { target, count } = recordAt(records, index);
    const counts = windows[target];
    if (counts !== undefined) counts[count] = (counts[count] ?? 0) + 1;
  }
  return { units, windows, records, beginnings: addedUp(files.flatMap(({ beginnings }) => beginnings)) };
}

/** Records of one window become one, with the sum of their counts. */
function merged(records: ArrayBuffer): Uint32Array {
  new BigUint64Array(records).sort();
  const words = new Uint32Array(records);
  let end = 0;
  for (let at = 0; at < words.length; at += 2) {
    const [low = 0, high = 0, before = 0] = [words[at], words[at + 1], words[end - 2]];
    const isSame = end > 0 && words[end - 1] === high && before >>> COUNT_BITS === low >>> COUNT_BITS;
    if (isSame) {
      const sum = Math.min((before & COUNT_MAX) + (low & COUNT_MAX), COUNT_MAX);
      words[end - 2] = ((before & ~COUNT_MAX) | sum) >>> 0;
    } else {
      words[end] = low;
      words[end + 1] = high;
      end += 2;
    }
  }
  return words.subarray(0, end);
}

function addedUp(beginnings: readonly Beginning[]): Beginning[] {
  const sums = new Map<string, Beginning>();
  for (const { target, bytes, units } of beginnings) {
    const key = `${target} ${bytes}`;
    sums.set(key, { target, bytes, units: units + (sums.get(key)?.units ?? 0) });
  }
  return [...sums.values()];
}

interface Chosen {
  readonly target: number;
  readonly units: number;
  readonly least: number;
  readonly bits: number;
  readonly share: number;
  /** Hashes. */
  readonly windows: Float64Array;
  filled: number;
}

/** `levels`: by class; of others nothing is kept. Resolves with the size of the file. */
export async function buildPrior(
  { units, beginnings, windows, records }: Counted,
  output: string,
  levels: ReadonlyMap<number, Level>,
): Promise<number> {
  const chosen = new Map<number, Chosen>();
  for (const [target, level] of levels) {
    const [ofClass, counts] = [units[target] ?? 0, windows[target]];
    if (ofClass > 0 && counts !== undefined) chosen.set(target, choose({ target, units: ofClass, counts, level }));
  }
  collect(records, chosen);
  const sets: StoredSet[] = [];
  const classes = [...chosen.values()].map(({ target, units: ofClass, share, bits, windows: found }) => {
    const { bytes, ...set } = buildSet(distinct(found), bits);
    sets.push({ bytes, ...set });
    const begin = beginnings.filter((one) => one.target === target);
    const shares = begin.map((one) => [one.bytes, Number((one.units / ofClass).toPrecision(2))]);
    return { target, units: ofClass, share, set, beginnings: Object.fromEntries(shares) };
  });
  return await writePrior(classes, sets, output);
}

/** The same counts, with what formats say now. Resolves with the size of the file. */
export async function renewFormats(path: string): Promise<number> {
  const { classes, sets } = parsePrior(await readFile(path));
  return await writePrior(classes, sets.slice(0, classes.length), path);
}

type Counts = PriorHeader['classes'];

/** `sets`: of the classes. */
async function writePrior(counts: Counts, sets: readonly StoredSet[], output: string): Promise<number> {
  const classes = counts.map((one) => ({ ...one, beginnings: withFormats(one) }));
  const { bytes, ...formats } = buildSet(formatWindows(classes.map(({ target }) => target)), FORMAT_BITS);
  const header: PriorHeader = { formats, classes };
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(text.length);
  const file = Buffer.concat([Buffer.from(MAGIC), length, text, ...sets.map((set) => set.bytes), bytes]);
  await writeFile(output, file);
  return file.length;
}

function choose({
  target,
  units,
  counts,
  level,
}: Pick<Chosen, 'target' | 'units'> & { readonly counts: Uint32Array; readonly level: Level }): Chosen {
  const least = Math.max(level.units, Math.ceil(level.share * units));
  let number = 0;
  let sum = 0;
  for (const [count, ofCount] of counts.entries()) {
    if (count < least) continue;
    number += ofCount;
    sum += ofCount * count;
  }
  const share = Number((sum / Math.max(number, 1) / units).toPrecision(3));
  return { target, units, least, bits: level.bits, share, windows: new Float64Array(number), filled: 0 };
}

/** As they are, and in small letters. */
function formatWindows(targets: readonly number[]): Float64Array {
  const windows = new Set<number>();
  for (const { target, texts } of formatTexts.filter((one) => targets.includes(one.target))) {
    for (const form of texts.flatMap((text) => [text, text.toLowerCase()])) {
      for (const window of hashesOf(target, Buffer.from(form, 'latin1'))) windows.add(numberOf(window));
    }
  }
  return Float64Array.from(windows);
}

function withFormats({ target, beginnings }: Counts[number]): Counts[number]['beginnings'] {
  const shares = new Map(Object.entries(beginnings));
  for (const text of formatTexts.filter((one) => one.target === target).flatMap((one) => one.beginnings)) {
    const bytes = Buffer.from(text, 'latin1').toString('hex');
    shares.set(bytes, Math.max(shares.get(bytes) ?? 0, FORMAT_SHARE));
  }
  return Object.fromEntries(shares);
}

function collect(records: Uint32Array, chosen: ReadonlyMap<number, Chosen>): void {
  for (let at = 0; at < records.length; at += 2) {
    const { target, count, ...window } = recordAt(records, at);
    const one = chosen.get(target);
    if (one === undefined || count < one.least) continue;
    one.windows[one.filled] = numberOf(window);
    one.filled += 1;
  }
}

/** Of ten million windows some hundred have the hash of another one. */
function distinct(windows: Float64Array): Float64Array {
  windows.sort();
  let kept = 0;
  for (let at = 0; at < windows.length; at += 1) {
    if (at > 0 && windows[at] === windows[at - 1]) continue;
    windows[kept] = windows[at] ?? 0;
    kept += 1;
  }
  return windows.subarray(0, kept);
}
