// What a `signatures tune` has learned, for a contestant with a folder of its own.
import { existsSync } from 'node:fs';
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Nothing else of the store: contestants make their gates themselves. */
export async function copyNoise(store: string, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  const learned = join(store, 'noise.json');
  if (existsSync(learned)) await copyFile(learned, join(directory, 'noise.json'));
}
