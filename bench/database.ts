// A folder of signatures for the bench: those of a given folder, unpacked, and generated hashes to the wanted size.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { copyFile, mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';

const LINES_PER_WRITE = 10_000;

/** Copies the folder's files, `.gz` unpacked, without what is in folders of it, which no engine reads either, and adds `hashes` made-up SHA-256 signatures. */
export async function makeDatabase(source: string, hashes: number, target: string): Promise<void> {
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
  if (hashes === 0) return;
  const file = await open(join(target, 'generated.hsb'), 'w');
  let lines: string[] = [];
  for (let index = 0; index < hashes; index += 1) {
    const digest = createHash('sha256').update(`bench ${index}`).digest('hex');
    lines.push(`${digest}:${1_000 + (index % 1_000_000)}:Bench.Generated-${index}:73\n`);
    if (lines.length === LINES_PER_WRITE || index === hashes - 1) {
      await file.write(lines.join(''));
      lines = [];
    }
  }
  await file.close();
}
