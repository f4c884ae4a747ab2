// Gates that hit clean content: learned while an engine serves, kept in the data directory, given up at the next load.
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gateStatistics } from '../addon.js';

const NOISE_FILE = 'noise.json';
/** Some thousand are learned from a machine's files; more would be somebody's mischief. */
const NOISE_MAX = 50_000;

/** Keys of gates; none where nothing was learned. */
export async function readNoise(directory: string): Promise<ReadonlySet<string>> {
  const text = await readFile(join(directory, NOISE_FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '[]';
    throw error;
  });
  return new Set(parseNoise(text));
}

/** What can't be read is as good as nothing: it is learned again. */
function parseNoise(text: string): string[] {
  try {
    const keys: unknown = JSON.parse(text);
    return Array.isArray(keys) ? keys.filter((key) => typeof key === 'string') : [];
  } catch {
    return [];
  }
}

/**
 * Keeps what the engine that serves has met so often at least. `keys`: of its gates, by number. Resolves with how many
 * were not known before.
 */
export async function learnNoise(directory: string, keys: readonly string[], leastTimes: number): Promise<number> {
  const noisy = (gateStatistics()?.noisy ?? []).filter(([, times]) => times >= leastTimes);
  const known = await readNoise(directory);
  const fresh = noisy.flatMap(([gate]) => keys[gate] ?? []).filter((key) => !known.has(key));
  if (fresh.length === 0) return 0;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, NOISE_FILE);
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, JSON.stringify([...known, ...fresh].slice(-NOISE_MAX)));
  await rename(draft, path);
  return fresh.length;
}
