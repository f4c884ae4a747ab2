// The files of a scan: what was named on the command line, folders with everything below them, in the order of their names.

import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, stat } from 'node:fs/promises';
import { codeOf, messageOfError } from '../error-text.js';

/** Paths are bytes: a name that is not UTF-8 must not hide a file. */
export type Entry =
  | { readonly kind: 'file'; readonly path: Buffer; readonly sizeBytes: number; readonly followLink: boolean }
  /** In a folder, but neither a file nor a folder. */
  | { readonly kind: 'skipped'; readonly path: Buffer; readonly reason: string }
  | { readonly kind: 'failed'; readonly path: Buffer; readonly reason: string };

/**
 * A link that is named on the command line is followed, one inside a folder is not. At any moment one list of names per level
 * of folders is in memory.
 */
export async function* walk(paths: readonly string[]): AsyncGenerator<Entry> {
  for (const name of paths) {
    const path = Buffer.from(name);
    const found = await attempt(() => stat(path));
    if (!found.ok) yield { kind: 'failed', path, reason: found.reason };
    else if (found.value.isDirectory()) yield* walkFolder(path);
    else if (found.value.isFile()) yield { kind: 'file', path, sizeBytes: found.value.size, followLink: true };
    else yield { kind: 'failed', path, reason: `neither a file nor a folder, but ${kindOf(found.value)}` };
  }
}

async function* walkFolder(folder: Buffer): AsyncGenerator<Entry> {
  const listed = await attempt(() => readdir(folder, { encoding: 'buffer' }));
  if (!listed.ok) {
    yield { kind: 'failed', path: folder, reason: listed.reason };
    return;
  }
  for (const name of listed.value.sort(Buffer.compare)) {
    const path = join(folder, name);
    const found = await attempt(() => lstat(path));
    if (!found.ok) yield { kind: 'failed', path, reason: found.reason };
    else if (found.value.isDirectory()) yield* walkFolder(path);
    else if (found.value.isFile()) yield { kind: 'file', path, sizeBytes: found.value.size, followLink: false };
    else yield { kind: 'skipped', path, reason: kindOf(found.value) };
  }
}

function join(folder: Buffer, name: Buffer): Buffer {
  const separator = folder.at(-1) === 0x2f ? '' : '/';
  return Buffer.concat([folder, Buffer.from(separator), name]);
}

function kindOf(stats: Stats): string {
  if (stats.isSymbolicLink()) return 'a symbolic link';
  if (stats.isFIFO()) return 'a named pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}

async function attempt<Value>(
  act: () => Promise<Value>,
): Promise<{ readonly ok: true; readonly value: Value } | { readonly ok: false; readonly reason: string }> {
  try {
    return { ok: true, value: await act() };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EIO: 'input/output error',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'became a link, or too many links',
  ENOTDIR: 'a part of the path is not a folder',
};

/** What the system says of a path that can't be read, without repeating the path. */
export function reasonOf(error: unknown): string {
  const code = codeOf(error);
  return code === null ? messageOfError(error) : (REASONS[code] ?? code);
}

export type Content =
  | {
      readonly kind: 'read';
      readonly bytes: Uint8Array<SharedArrayBuffer>;
      readonly sizeBytes: number;
      readonly sha256: string;
    }
  | { readonly kind: 'incomplete'; readonly reason: string };

/** Bytes hashed at one go, so that a large file doesn't hold up the thread that feeds the others. */
const SLICE_BYTES = 4 * 1024 * 1024;

/**
 * Reads at most the size that the file had when it was found: memory was set aside for that. Rejects with the system's error.
 * A link in place of the file, put there since, is only followed where it was named on the command line.
 */
export async function readContent(path: Buffer, sizeBytes: number, followLink: boolean): Promise<Content> {
  // A named pipe, put there since, must not block: nobody may ever write to it.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | (followLink ? 0 : constants.O_NOFOLLOW);
  const file = await open(path, flags);
  try {
    if (!(await file.stat()).isFile()) return { kind: 'incomplete', reason: 'the file was replaced while it was read' };
    const bytes = new Uint8Array(new SharedArrayBuffer(sizeBytes));
    const hash = createHash('sha256');
    let filled = 0;
    while (filled < sizeBytes) {
      const target = bytes.subarray(filled, Math.min(filled + SLICE_BYTES, sizeBytes));
      const { bytesRead } = await file.read(target, 0, target.length, null);
      if (bytesRead === 0) break;
      hash.update(target.subarray(0, bytesRead));
      filled += bytesRead;
    }
    // Files of /proc say 0 and have content; a log grows.
    if (filled < sizeBytes || (await hasMore(file))) {
      return { kind: 'incomplete', reason: 'the file changed while it was read' };
    }
    return { kind: 'read', bytes, sizeBytes: filled, sha256: hash.digest('hex') };
  } finally {
    await file.close();
  }
}

async function hasMore(file: FileHandle): Promise<boolean> {
  const { bytesRead } = await file.read(new Uint8Array(1), 0, 1, null);
  return bytesRead > 0;
}
