// `sluice signatures tune`: learns from clean files which gates hit for nothing, until hardly one does.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../config/config.js';
import { presentFolders } from '../engine/folders.js';
import { type TuneResult, tuneOnce } from '../engine/tune.js';
import { messageOfError } from '../error-text.js';
import { EXIT_CLEAN, EXIT_FAILED } from '../exit-codes.js';
import { escapeText } from './output.js';
import { createProgress, type Progress } from './progress.js';
import { findServiceIfAny } from './service-place.js';
import { walk } from './walk.js';

const ROUNDS_MAX = 10;
/** What hits often is learned from few files, and makes all others slow until it is. */
const FILES_FIRST = 500;
const FILES_GROWTH = 4;
/** In all rounds together each file is scanned so often at most, on average. */
const PASSES_MAX = 8;
const FILE_BYTES_MAX = 50 * 1024 * 1024;

/** Resolves with the exit code. */
export async function signaturesTune(paths: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(findServiceIfAny(env) ?? env);
  const files = await filesIn(paths);
  if (files.length === 0) {
    process.stderr.write('sluice: there is no file to learn from\n');
    return EXIT_FAILED;
  }
  const gatesDirectory = join(config.dataDirectory, 'gates');
  let scanned = 0;
  for (let round = 1; round <= ROUNDS_MAX && scanned < files.length * PASSES_MAX; round += 1) {
    const ofRound = slice(files, scanned, FILES_FIRST * FILES_GROWTH ** (round - 1));
    scanned += ofRound.length;
    const progress = createProgress(process.stderr);
    try {
      const result = await tuneOnce({
        directories: presentFolders(config.signatureFolders),
        gatesDirectory,
        contents: () => contentsOf(ofRound, progress),
        onProgress: progress.loading,
        onLoaded: () => progress.total(ofRound.length),
      });
      process.stdout.write(`Round ${round}: ${describe(result)}\n`);
      if (result.learned === 0 && scanned >= files.length) return EXIT_CLEAN;
    } catch (error) {
      process.stderr.write(`sluice: ${escapeText(messageOfError(error))}\n`);
      return EXIT_FAILED;
    } finally {
      progress.stop();
    }
  }
  return EXIT_CLEAN;
}

function describe({ scans, secondLooks, inVain, learned }: TuneResult): string {
  return `${scans} scans, ${secondLooks} second looks, ${inVain} of them for nothing, ${learned} gates given up`;
}

async function filesIn(paths: readonly string[]): Promise<Buffer[]> {
  const files: Buffer[] = [];
  for await (const entry of walk(paths)) {
    if (entry.kind === 'file' && entry.sizeBytes > 0 && entry.sizeBytes <= FILE_BYTES_MAX) files.push(entry.path);
    if (entry.kind === 'failed')
      process.stderr.write(`sluice: ${escapeText(entry.path.toString())}: ${entry.reason}\n`);
  }
  return shuffled(files);
}

/** Always in the same order, in which files of one folder are far apart. */
function shuffled(paths: readonly Buffer[]): Buffer[] {
  const ranked = paths.map((path) => ({ path, rank: createHash('sha256').update(path).digest() }));
  return ranked.sort((a, b) => Buffer.compare(a.rank, b.rank)).map(({ path }) => path);
}

/** So many from there on, each at most once; behind the last one comes the first. */
function slice(paths: readonly Buffer[], from: number, count: number): readonly Buffer[] {
  const start = from % paths.length;
  return [...paths.slice(start), ...paths.slice(0, start)].slice(0, count);
}

/** A file that has gone, or can't be read, teaches nothing. */
async function* contentsOf(paths: readonly Buffer[], progress: Progress): AsyncIterable<Uint8Array> {
  for (const [index, path] of paths.entries()) {
    progress.scanned(index);
    const content = await readFile(path).catch(() => Buffer.alloc(0));
    if (content.length > 0) yield content;
  }
}
