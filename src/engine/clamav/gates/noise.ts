// What a server learns from contents that it looks at twice for nothing: windows of theirs, and of gates that no window tells of, the gates themselves.
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolderAsync } from '../../../paths.js';
import { type GateStatistics, gateStatistics, windowCounts } from '../addon.js';
import { gateOf } from './candidates.js';
import { commonWindows, keepLearned, type Prior, readLearned, readPrior } from './prior.js';

const NOISE_FILE = 'noise.json';
/** Some hundred are learned from a machine's files; more would be somebody's mischief. */
const NOISE_MAX = 50_000;
/**
 * A gate that hits less often than in one of so many scans stays: a signature that finds no other gate is asked about each content, and a
 * second look costs about so many times as much as one more signature.
 */
const SCANS_PER_HIT_MAX = 2_000;
/** Of contents that are looked at twice. A signature without a gate has some hundred in common with them: no more than that many signatures at a load. */
const WINDOWS_A_LOAD = 20_000;

export interface NoiseRule {
  /** Those that hit in vain so often at least. */
  readonly leastTimes: number;
  /** So many of them, those first that hit most often. */
  readonly most: number;
}

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

/** Numbers of gates that the rule gives up, and how often each has hit in vain. */
export function noisyGates({ scans, noisy }: GateStatistics, { leastTimes, most }: NoiseRule): GateStatistics['noisy'] {
  const least = Math.max(leastTimes, scans / SCANS_PER_HIT_MAX);
  return noisy
    .filter(([, times]) => times >= least)
    .sort(([, one], [, other]) => other - one)
    .slice(0, most);
}

/** The share of the scans, from 0 to 1, that looked again for nothing because of gates that the rule gives up; rather too high. */
export function noiseShare(statistics: GateStatistics, rule: NoiseRule): number {
  const { scans, inVain } = statistics;
  if (scans === 0) return 0;
  const hits = noisyGates(statistics, rule).reduce((sum, [, times]) => sum + times, 0);
  return Math.min(hits, inVain) / scans;
}

/**
 * Keeps what the engine that serves has met and the rule gives up. `keys`: of its gates, by number. Resolves with how
 * many gates and windows were not known before.
 */
export async function learnNoise(directory: string, keys: readonly string[], rule: NoiseRule): Promise<number> {
  const statistics = gateStatistics();
  if (statistics === null) return 0;
  const noisy = noisyGates(statistics, rule).flatMap(([gate]) => keys[gate] ?? []);
  // Where no gate is given up, what lies beside it doesn't matter.
  if (noisy.length === 0) return 0;
  const { windows, others } = splitByWindows(noisy, await readPrior(await readLearned(directory)));
  const beside = commonWindows(windowCounts() ?? new Float64Array(), statistics.scans, rule.leastTimes);
  const found = [...windows, ...beside.slice(0, WINDOWS_A_LOAD)];
  return (await keepLearned(directory, found)) + (await keepNoise(directory, others));
}

/** `others`: keys of gates that no windows make common. */
function splitByWindows(
  keys: readonly string[],
  prior: Prior,
): { readonly windows: ReadonlySet<number>; readonly others: readonly string[] } {
  const windows = new Set<number>();
  const others: string[] = [];
  for (const key of keys) {
    const deciding = prior.decidingWindows(gateOf(key));
    if (deciding === null) others.push(key);
    for (const window of deciding ?? []) windows.add(window);
  }
  return { windows, others };
}

/** Resolves with how many were not known before. */
async function keepNoise(directory: string, keys: readonly string[]): Promise<number> {
  const known = await readNoise(directory);
  const fresh = keys.filter((key) => !known.has(key));
  if (fresh.length === 0) return 0;
  await makeFolderAsync(directory);
  const path = join(directory, NOISE_FILE);
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, JSON.stringify([...known, ...fresh].slice(-NOISE_MAX)));
  await rename(draft, path);
  return fresh.length;
}
