// The databases that serve, as a copy of our own: what RELOAD=frugal falls back to when the new ones can't be loaded.
import { constants } from 'node:fs';
import { copyFile, mkdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { databaseFiles, fingerprint } from './databases.js';
import { ownedName, removeOrphans, showLife } from './owned.js';

export interface KeptCopy {
  /** Copies the databases beside the kept ones and returns the folders of the copy. Rejects when they change meanwhile. */
  stage(): Promise<readonly string[]>;
  /** The staged copy becomes the kept one; its folders. */
  keepStaged(): Promise<readonly string[]>;
  /** The folders of the kept copy; null before the first. */
  kept(): readonly string[] | null;
  /** To be called every SIGN_OF_LIFE_MS: keeps the copies from being taken for leftovers, and removes those of others. */
  tend(): void;
  /** Removes the copies; nothing may be loaded any more. */
  remove(): Promise<void>;
  /** A message about files of the copy, in the words of the folders that were copied. */
  translate(message: string): string;
}

/** Names of the folders below `parent`: one for each process, since two of them load at a time while one replaces the other. */
const PREFIX = 'process-';
let copies = 0;

export function createKeptCopy(directoriesNow: () => readonly string[], directory: string): KeptCopy {
  const parent = join(directory, `${ownedName(PREFIX)}${copies++}`);
  /** What the staged and the kept copy are of, folder by folder. */
  let staged: readonly string[] = [];
  let held: readonly string[] | null = null;
  const next = (index: number): string => join(parent, 'next', String(index));
  const serving = (index: number): string => join(parent, 'serving', String(index));
  const pathsOf = (list: readonly string[], path: (index: number) => string): string[] =>
    list.map((_, index) => path(index));
  return {
    async stage() {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      // What can't be removed is in nobody's way here.
      removeOrphans(directory, PREFIX);
      await rm(join(parent, 'next'), { recursive: true, force: true });
      const directories = directoriesNow();
      const before = await fingerprint(directories);
      for (const [index, directory] of directories.entries()) {
        await copyDatabases(directory, next(index));
      }
      if ((await fingerprint(directories)) !== before) {
        throw new Error(`The signatures changed while they were copied (${directories.join(', ')})`);
      }
      staged = directories;
      return pathsOf(staged, next);
    },
    async keepStaged() {
      await rm(join(parent, 'serving'), { recursive: true, force: true });
      await rename(join(parent, 'next'), join(parent, 'serving'));
      held = staged;
      return pathsOf(held, serving);
    },
    kept: () => (held === null ? null : pathsOf(held, serving)),
    tend() {
      showLife(parent);
      removeOrphans(directory, PREFIX);
    },
    remove: () => rm(parent, { recursive: true, force: true }),
    translate(message) {
      let text = message;
      for (const [index, directory] of staged.entries()) text = text.replaceAll(next(index), directory);
      for (const [index, directory] of (held ?? []).entries()) text = text.replaceAll(serving(index), directory);
      return text;
    },
  };
}

async function copyDatabases(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const path of await databaseFiles(from)) {
    const copy = join(to, basename(path));
    await copyFile(path, copy, constants.COPYFILE_FICLONE);
    // Its modification time is what a file without a version has for an age.
    const { atime, mtime } = await stat(path);
    await utimes(copy, atime, mtime);
  }
}
