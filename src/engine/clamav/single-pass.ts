// Whether all signatures are matched in one pass over a content. By default libclamav takes two over each layer: one for body signatures of any kind of file and of programs for
// Windows that have no wildcards, and one for all others.
import { readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { databaseFiles, readContainerHeader } from '../databases.js';

/**
 * The pass for them alone costs 6 ns a byte, however few they are. Beside the others each one makes the other pass a little slower:
 * with 2,000 (half random, half machine code) both ways took about as long, with 8,000 one pass took up to a third longer.
 */
const BODY_SIGNATURES_MAX = 2_048;
/** A container counts with all signatures that its header tells of, and those may all begin alike. ClamAV's programs are some ninety. */
const IN_CONTAINERS_MAX = 128;
/** In one pass, all that begin alike are compared wherever their beginning lies: 2,000 of them took 35 times as long. */
const BEGINNING_BYTES = 3;
const ALIKE_MAX = 16;
/** Plain text, a line for each. */
export const BODY_EXTENSIONS: ReadonlySet<string> = new Set(['.ndb', '.ndu', '.db', '.sdb']);
/** Larger files are not read for it: a line has rarely more than 500 bytes. */
const BYTES_MAX = BODY_SIGNATURES_MAX * 512;

/** Whether one pass is faster with these body signatures. `patterns`: hexadecimal digits and wildcards. */
export function areFew(patterns: readonly string[]): boolean {
  if (patterns.length > BODY_SIGNATURES_MAX) return false;
  const beginnings = new Map<string, number>();
  for (const pattern of patterns) {
    const beginning = pattern.slice(0, 2 * BEGINNING_BYTES).toLowerCase();
    const alike = (beginnings.get(beginning) ?? 0) + 1;
    // Shorter ones are refused where there are two passes, and stay refused.
    if (alike > ALIKE_MAX || beginning.length < 2 * BEGINNING_BYTES) return false;
    beginnings.set(beginning, alike);
  }
  return true;
}

/** The same of all that is in the folders, as far as the files tell. Rejects when a folder can't be read. */
export async function isSinglePassFaster(directories: readonly string[]): Promise<boolean> {
  const all: string[] = [];
  let inContainers = 0;
  for (const directory of directories) {
    for (const path of await databaseFiles(directory)) {
      inContainers += (await readContainerHeader(path))?.signatureCount ?? 0;
      const patterns = BODY_EXTENSIONS.has(extname(path).toLowerCase()) ? await readPatterns(path) : [];
      if (patterns === null || inContainers > IN_CONTAINERS_MAX) return false;
      all.push(...patterns);
    }
  }
  return areFew(all);
}

/** Hexadecimal digits and wildcards. Null: the file is too large to have few. */
async function readPatterns(path: string): Promise<readonly string[] | null> {
  if ((await stat(path)).size > BYTES_MAX) return null;
  const lines = (await readFile(path, 'latin1')).split(/\r?\n/).filter((line) => line !== '' && !line.startsWith('#'));
  // `Name=Pattern`, or `Name:Target:Offset:Pattern` and more.
  return lines.map(
    (line) => (path.toLowerCase().endsWith('.db') ? line.split('=') : line.split(':').slice(2))[1] ?? '',
  );
}
