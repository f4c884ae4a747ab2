// What a `signatures tune` or a server has learned, for a contestant with a folder of its own.
import { existsSync } from 'node:fs';
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Nothing else of the store: contestants make their gates themselves. */
export async function copyLearned(store: string, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const name of ['learned.bin', 'noise.json']) {
    if (existsSync(join(store, name))) await copyFile(join(store, name), join(directory, name));
  }
}
