// What verdicts depend on beside the signatures: our addon, its marks, and shared libraries, which may differ from machine to machine.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { addonPath, marksDirectory } from '../../paths.js';
import { contentDigest, databaseFiles } from '../databases.js';

/** libclamav, the library that unpacks RAR for it, and those that it parses and unpacks with. */
const SCANNING = /^lib(clam|xml2|json-c|pcre2|z|zstd|bz2|lz4|lzma|mspack|tfm|iconv)[\w-]*\.so/;

/**
 * SHA-256 over all of that, in hex; null: a library was replaced on disk since it was loaded. To be called after the
 * addon was loaded, which loads the libraries.
 */
export async function scannerDigest(): Promise<string | null> {
  const paths = new Set<string>();
  for (const line of (await readFile('/proc/self/maps', 'utf8')).split('\n')) {
    const path = /\s(\/.*)$/.exec(line)?.[1];
    if (path !== undefined && SCANNING.test(basename(path))) paths.add(path);
  }
  if ([...paths].some((path) => path.endsWith(' (deleted)'))) return null;
  const marks = await databaseFiles(marksDirectory);
  const libraries = [...paths].sort((a, b) => (basename(a) < basename(b) ? -1 : 1));
  return await contentDigest([addonPath, ...marks, ...libraries]);
}
