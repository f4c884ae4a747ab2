// Whether libclamav should match in one pass. By default it takes two over each layer: one for body signatures of any kind of file
// that have no wildcards, and one for all others.
import { stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { countLines, databaseFiles, readContainerHeader } from '../databases.js';

/**
 * The pass for them alone costs 6 ns a byte, however few they are. Beside the others each one makes the other pass a little slower:
 * with 2,000 (half random, half machine code) both ways took about as long, with 8,000 one pass took up to a third longer.
 */
const BODY_SIGNATURES_MAX = 2_048;
/** Plain text, a line for each. */
const BODY_EXTENSIONS = new Set(['.ndb', '.ndu', '.db', '.sdb']);
/** Larger files are not read for it: a line has rarely more than 500 bytes. */
const BYTES_MAX = BODY_SIGNATURES_MAX * 512;

/** A container counts with all signatures that its header tells of: what they are is known only when it is unpacked. Rejects when a folder can't be read. */
export async function isSinglePassFaster(directories: readonly string[]): Promise<boolean> {
  let count = 0;
  for (const directory of directories) {
    for (const path of await databaseFiles(directory)) {
      count += (await readContainerHeader(path))?.signatureCount ?? (await countBodySignatures(path));
      if (count > BODY_SIGNATURES_MAX) return false;
    }
  }
  return true;
}

async function countBodySignatures(path: string): Promise<number> {
  if (!BODY_EXTENSIONS.has(extname(path).toLowerCase())) return 0;
  return (await stat(path)).size > BYTES_MAX ? Number.POSITIVE_INFINITY : await countLines(path);
}
