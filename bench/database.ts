// A folder of signatures for the bench: those of a given folder, unpacked, and generated hashes to the wanted size.
import { type Cipher, createCipheriv, createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { copyFile, mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extendedSignatures, logicalSignatures } from './logical.js';

const LINES_PER_WRITE = 10_000;
const MD5_BYTES = 16;
const SHA256_BYTES = 32;
/** Of the official hashes, about every fifth is a SHA-256. */
const ONE_SHA256_OF = 5;

/** How many signatures are made up. */
export interface Generated {
  /** SHA-256 of whole files, in one file of their own. */
  readonly hashes?: number;
  /** Of whole files, as the official databases have them: MD5 and SHA-256, in plain files. */
  readonly fileHashes?: number;
  /** Of sections of Windows programs, likewise. */
  readonly sectionHashes?: number;
  readonly logical?: number;
  readonly extended?: number;
}

/** Copies the folder's files, `.gz` unpacked, without what is in folders of it, which no engine reads either, and adds signatures that are made up. */
export async function makeDatabase(source: string, generated: Generated, target: string): Promise<void> {
  await mkdir(target);
  for (const entry of await readdir(source, { withFileTypes: true })) {
    if (entry.isDirectory()) continue;
    const { name } = entry;
    const path = join(source, name);
    if (!name.endsWith('.gz')) await copyFile(path, join(target, name));
    else {
      const unpacked = createWriteStream(join(target, name.slice(0, -'.gz'.length)));
      await pipeline(createReadStream(path), createGunzip(), unpacked);
    }
  }
  const { hashes = 0, fileHashes = 0, sectionHashes = 0, logical = 0, extended = 0 } = generated;
  await writeLines(join(target, 'generated.hsb'), hashes, (index) => {
    const digest = createHash('sha256').update(`bench ${index}`).digest('hex');
    return `${digest}:${1_000 + (index % 1_000_000)}:Bench.Generated-${index}:73`;
  });
  const lines = logicalSignatures(logical);
  await writeLines(join(target, 'generated.ldb'), logical, () => String(lines.next().value));
  const others = extendedSignatures(extended);
  await writeLines(join(target, 'generated.ndb'), extended, () => String(others.next().value));
  await writeMixed(target, ['hdb', 'hsb'], fileHashes, (digest, size, name) => `${digest}:${size}:${name}`);
  await writeMixed(target, ['mdb', 'msb'], sectionHashes, (digest, size, name) => `${size}:${digest}:${name}`);
}

type Line = (digest: string, size: number, name: string) => string;

async function writeMixed(
  target: string,
  [md5, sha256]: readonly [string, string],
  count: number,
  line: Line,
): Promise<void> {
  const shaCount = Math.floor(count / ONE_SHA256_OF);
  for (const [kind, bytes, lines] of [
    [md5, MD5_BYTES, count - shaCount],
    [sha256, SHA256_BYTES, shaCount],
  ] as const) {
    // As random as hashes are, the same in each run, and faster than hashes.
    const random: Cipher = createCipheriv(
      'aes-128-ctr',
      createHash('md5').update(kind).digest(),
      Buffer.alloc(MD5_BYTES),
    );
    await writeLines(join(target, `mixed.${kind}`), lines, (index) => {
      const digest = random.update(Buffer.alloc(bytes)).toString('hex');
      const functionLevel = bytes === MD5_BYTES ? '' : ':73';
      return `${line(digest, 512 + (index % 1_000_000), `Win.Trojan.Generated-${kind}-${index}`)}${functionLevel}`;
    });
  }
}

async function writeLines(path: string, count: number, line: (index: number) => string): Promise<void> {
  if (count === 0) return;
  const file = await open(path, 'w');
  try {
    for (let index = 0; index < count; ) {
      const lines: string[] = [];
      for (; lines.length < LINES_PER_WRITE && index < count; index += 1) lines.push(line(index));
      await file.write(`${lines.join('\n')}\n`);
    }
  } finally {
    await file.close();
  }
}
