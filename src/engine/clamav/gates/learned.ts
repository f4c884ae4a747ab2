// Which windows clean content has, as `sluice signatures tune` and a server have learned it: kept in the data directory, asked as those are that are
// known beforehand.
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const FILE = 'learned.bin';
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

export const NOTHING_LEARNED: LearnedWindows = { digest: null, size: 0, has: () => false };

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
  return await readFile(join(directory, FILE)).catch((error: NodeJS.ErrnoException) => {
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
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, FILE);
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, Buffer.from(Float64Array.from(windows).buffer));
  await rename(draft, path);
  return fresh;
}
