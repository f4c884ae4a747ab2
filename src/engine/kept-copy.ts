// The databases that serve, as a copy of our own: what RELOAD=frugal falls back to when the new ones can't be loaded.
import { constants } from 'node:fs';
import { copyFile, mkdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { databaseFiles, fingerprint } from './databases.js';

export interface KeptCopy {
  /** Copies the databases beside the kept ones and returns the folders of the copy. Rejects when they change meanwhile. */
  stage(): Promise<readonly string[]>;
  /** The staged copy becomes the kept one; its folders. */
  keepStaged(): Promise<readonly string[]>;
  /** The folders of the kept copy; null before the first. */
  kept(): readonly string[] | null;
  /** A message about files of the copy, in the words of the folders that were copied. */
  translate(message: string): string;
}

export function createKeptCopy(directories: readonly string[], parent: string): KeptCopy {
  const staged = directories.map((_, index) => join(parent, 'next', String(index)));
  const held = directories.map((_, index) => join(parent, 'serving', String(index)));
  let hasKept = false;
  return {
    async stage() {
      await rm(join(parent, 'next'), { recursive: true, force: true });
      const before = await fingerprint(directories);
      for (const [index, directory] of directories.entries()) {
        await copyDatabases(directory, join(parent, 'next', String(index)));
      }
      if ((await fingerprint(directories)) !== before) {
        throw new Error(`The signatures changed while they were copied (${directories.join(', ')})`);
      }
      return staged;
    },
    async keepStaged() {
      await rm(join(parent, 'serving'), { recursive: true, force: true });
      await rename(join(parent, 'next'), join(parent, 'serving'));
      hasKept = true;
      return held;
    },
    kept: () => (hasKept ? held : null),
    translate(message) {
      let text = message;
      for (const [index, directory] of directories.entries()) {
        for (const copy of [staged[index], held[index]])
          if (copy !== undefined) text = text.replaceAll(copy, directory);
      }
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
