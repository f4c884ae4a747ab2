// What a `signatures tune` has learned, for a contestant with a folder of its own.
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Nothing else of the store: contestants make their gates themselves. */
export async function copyNoise(store: string, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  await copyFile(join(store, 'noise.json'), join(directory, 'noise.json'));
}
