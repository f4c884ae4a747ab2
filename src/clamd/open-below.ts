// Files of the machine, opened once and only below the folders that may be looked at. A path is followed to what it leads to, without a read
// of it; the kernel says where that is, and only then is it opened. Paths are Latin-1, byte by byte.
import { close, constants, fstat, lstat, open, opendir, readlink } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { codeOf } from '../error-text.js';

const opens = promisify(open);
const closes = promisify(close);
const stats = promisify(fstat);
const linkStats = promisify(lstat);
const links = promisify(readlink);
const folders = promisify(opendir);

/** open(2): a descriptor of the place alone, whatever is there; nothing is opened, and no FIFO waited for. Node has no name for it. */
const PLACE_ONLY = 0o10000000;

export type Opened =
  | { readonly kind: 'file'; readonly descriptor: number }
  /** Of the place: its entries are read with `entriesOf`. */
  | { readonly kind: 'folder'; readonly descriptor: number }
  | { readonly kind: 'special' }
  | { readonly kind: 'refused'; readonly reason: string };

const DENIED: Opened = { kind: 'refused', reason: 'Permission denied' };
/** As strerror(3) calls it. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'No such file or directory',
  ENOTDIR: 'Not a directory',
  EACCES: 'Permission denied',
  ELOOP: 'Too many levels of symbolic links',
  ENAMETOOLONG: 'File name too long',
  EMFILE: 'Too many open files',
  ENFILE: 'Too many open files in system',
};

function bytesOf(path: string): Buffer {
  return Buffer.from(path, 'latin1');
}

function placeOf(descriptor: number): string {
  return `/proc/self/fd/${descriptor}`;
}

/** Of the folders that are there: one may be mounted later. */
async function realPathsOf(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map((path) => realpath(path, 'latin1').catch(() => null)));
  return found.flatMap((path) => (path === null ? [] : [path]));
}

async function isBelow(roots: readonly string[], descriptor: number): Promise<boolean> {
  const real = (await links(placeOf(descriptor), 'latin1')).toString();
  return roots.some((root) => root === '/' || real === root || real.startsWith(`${root}/`));
}

/** Resolves with a descriptor that the caller closes, or with what there is instead. */
export async function openBelow(allowed: readonly string[], path: string): Promise<Opened> {
  if (allowed.length === 0) return DENIED;
  const roots = await realPathsOf(allowed);
  // As for clamd: relative to nothing.
  if (!path.startsWith('/')) return { kind: 'refused', reason: reasonFor('ENOENT') };
  let place: number;
  try {
    place = await opens(bytesOf(path), PLACE_ONLY);
  } catch (error) {
    return await refusal(roots, path, error);
  }
  return await handOver(place, async () => ((await isBelow(roots, place)) ? await openedAs(place) : DENIED));
}

/** An entry of a folder that is open; a link is no entry: resolves with null. */
export async function openEntry(folder: number, name: string): Promise<Opened | null> {
  let place: number;
  try {
    place = await opens(bytesOf(`${placeOf(folder)}/${name}`), PLACE_ONLY | constants.O_NOFOLLOW);
  } catch (error) {
    // It has gone meanwhile.
    return codeOf(error) === 'ENOENT' ? null : { kind: 'refused', reason: reasonOf(error) };
  }
  return await handOver(place, async () => {
    if ((await stats(place)).isSymbolicLink()) return null;
    return await openedAs(place);
  });
}

export async function* entriesOf(folder: number): AsyncGenerator<string> {
  for await (const { name } of await folders(placeOf(folder), { encoding: 'latin1' })) yield name;
}

export async function closeFile(descriptor: number): Promise<void> {
  await closes(descriptor);
}

/** Closes the place, unless it is what is handed over. */
async function handOver<Result extends Opened | null>(place: number, open: () => Promise<Result>): Promise<Result> {
  let result: Result | null = null;
  try {
    result = await open();
    return result;
  } finally {
    if (result?.kind !== 'folder') await closes(place);
  }
}

/** The same inode as the place, whatever its path leads to by now. */
async function openedAs(place: number): Promise<Opened> {
  const found = await stats(place);
  if (found.isDirectory()) return { kind: 'folder', descriptor: place };
  if (!found.isFile()) return { kind: 'special' };
  try {
    const flags = constants.O_RDONLY | constants.O_NOCTTY | constants.O_NONBLOCK;
    return { kind: 'file', descriptor: await opens(placeOf(place), flags) };
  } catch (error) {
    return { kind: 'refused', reason: reasonOf(error) };
  }
}

/** Only of what is missing in a folder that may be looked at, it is said that it is missing. */
async function refusal(roots: readonly string[], path: string, error: unknown): Promise<Opened> {
  const reason = { kind: 'refused', reason: reasonOf(error) } as const;
  if (codeOf(error) !== 'ENOENT') return DENIED;
  const isLink = await linkStats(bytesOf(path)).then(
    () => true,
    () => false,
  );
  if (isLink) return DENIED;
  try {
    const parent = await opens(bytesOf(dirname(path)), PLACE_ONLY);
    return await handOver(parent, async () => ((await isBelow(roots, parent)) ? reason : DENIED));
  } catch {
    return DENIED;
  }
}

function reasonOf(error: unknown): string {
  const code = codeOf(error);
  if (code === null) throw error;
  return reasonFor(code);
}

function reasonFor(code: string): string {
  return REASONS[code] ?? code;
}
