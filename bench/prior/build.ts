// Makes the file of windows that ships from what windows.c has counted: for each class a set of hashes.
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { MAGIC, type PriorHeader } from '../../src/engine/clamav/gates/prior.js';
import { buildSet, type StoredSet } from '../../src/engine/clamav/gates/window-set.js';

/** Classes are libclamav's targets, as in windows.c. */
const CLASSES = 13;
const LENGTH_BYTES = 4;
const RECORD_BYTES = 8;
const BEGINNING_RECORD_BYTES = 12;
const COUNT_BITS = 10;
const CLASS_BITS = 4;

/** Which windows of a class are kept: those in so many units at least, or so large a share of them, whatever is more. */
export interface Level {
  readonly units: number;
  readonly share: number;
  /** Of a fingerprint: of windows that are not in the set one in 2^bits is taken for one that is. */
  readonly bits: number;
}

export interface Counted {
  /** By class. */
  readonly units: readonly number[];
  readonly beginnings: readonly { readonly target: number; readonly bytes: string; readonly units: number }[];
  /** By class and count. */
  readonly windows: readonly Uint32Array[];
}

interface Record {
  readonly target: number;
  readonly count: number;
  readonly first: number;
  readonly second: number;
}

async function* piecesOf(path: string, start: number): AsyncGenerator<Buffer> {
  let left: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path, { start, highWaterMark: 1 << 20 })) {
    const bytes: Buffer = left.length === 0 ? chunk : Buffer.concat([left, chunk]);
    const whole = bytes.length - (bytes.length % RECORD_BYTES);
    yield bytes.subarray(0, whole);
    left = bytes.subarray(whole);
  }
}

/** From the lowest bit: the count, the class, the hash. */
function recordAt(bytes: Buffer, at: number): Record {
  const low = bytes.readUInt32LE(at);
  const high = bytes.readUInt32LE(at + 4);
  const below = COUNT_BITS + CLASS_BITS;
  return {
    count: low & ((1 << COUNT_BITS) - 1),
    target: (low >>> COUNT_BITS) & ((1 << CLASS_BITS) - 1),
    first: ((low >>> below) | (high << (32 - below))) >>> 0,
    second: high >>> below,
  };
}

interface Head {
  readonly units: readonly number[];
  readonly beginnings: Counted['beginnings'];
  readonly bytes: number;
}

async function readHead(path: string): Promise<Head> {
  const chunks: Buffer[] = [];
  const fixed = 4 * (CLASSES + 1);
  for await (const chunk of createReadStream(path, { end: fixed - 1 })) chunks.push(chunk);
  const head = Buffer.concat(chunks);
  const units = Array.from({ length: CLASSES }, (_, target) => head.readUInt32LE(4 * target));
  const count = head.readUInt32LE(4 * CLASSES);
  const bytes = fixed + count * BEGINNING_RECORD_BYTES;
  const rest: Buffer[] = [];
  for await (const chunk of createReadStream(path, { start: fixed, end: bytes - 1 })) rest.push(chunk);
  const records = Buffer.concat(rest);
  const beginnings = Array.from({ length: count }, (_, index) => {
    const at = index * BEGINNING_RECORD_BYTES;
    return {
      target: records.readUInt32LE(at),
      bytes: records.toString('hex', at + 4, at + 8),
      units: records.readUInt32LE(at + 8),
    };
  });
  return { units, beginnings, bytes };
}

export async function readCounts(path: string): Promise<Counted> {
  const { units, beginnings, bytes } = await readHead(path);
  const windows = units.map(() => new Uint32Array(1 << COUNT_BITS));
  for await (const piece of piecesOf(path, bytes)) {
    for (let at = 0; at < piece.length; at += RECORD_BYTES) {
      const { target, count } = recordAt(piece, at);
      const counts = windows[target];
      if (counts !== undefined) counts[count] = (counts[count] ?? 0) + 1;
    }
  }
  return { units, beginnings, windows };
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
  countsPath: string,
  output: string,
  levels: ReadonlyMap<number, Level>,
): Promise<number> {
  const { units, beginnings, windows } = await readCounts(countsPath);
  const chosen = new Map<number, Chosen>();
  for (const [target, level] of levels) {
    const [ofClass, counts] = [units[target] ?? 0, windows[target]];
    if (ofClass > 0 && counts !== undefined) chosen.set(target, choose({ target, units: ofClass, counts, level }));
  }
  await collect(countsPath, chosen);
  const sets: StoredSet[] = [];
  const classes = [...chosen.values()].map(({ target, units: ofClass, share, bits, windows: found }) => {
    const { bytes, ...set } = buildSet(distinct(found), bits);
    sets.push({ bytes, ...set });
    const begin = beginnings.filter((one) => one.target === target);
    const shares = begin.map((one) => [one.bytes, Number((one.units / ofClass).toPrecision(2))]);
    return { target, units: ofClass, share, set, beginnings: Object.fromEntries(shares) };
  });
  const header: PriorHeader = { classes };
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(text.length);
  const file = Buffer.concat([Buffer.from(MAGIC), length, text, ...sets.map((set) => set.bytes)]);
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
  let windows = 0;
  let sum = 0;
  for (const [count, number] of counts.entries()) {
    if (count < least) continue;
    windows += number;
    sum += number * count;
  }
  const share = Number((sum / Math.max(windows, 1) / units).toPrecision(3));
  return { target, units, least, bits: level.bits, share, windows: new Float64Array(windows), filled: 0 };
}

async function collect(countsPath: string, chosen: ReadonlyMap<number, Chosen>): Promise<void> {
  const { bytes } = await readHead(countsPath);
  for await (const piece of piecesOf(countsPath, bytes)) {
    for (let at = 0; at < piece.length; at += RECORD_BYTES) {
      const { target, count, first, second } = recordAt(piece, at);
      const one = chosen.get(target);
      if (one === undefined || count < one.least) continue;
      one.windows[one.filled] = second * 2 ** 32 + first;
      one.filled += 1;
    }
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
