// `sluice signatures tune`: learns from clean files which gates hit for nothing, until none does.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../config/config.js';
import { presentFolders } from '../engine/folders.js';
import { type TuneResult, tuneOnce } from '../engine/tune.js';
import { messageOfError } from '../error-text.js';
import { EXIT_CLEAN, EXIT_FAILED } from '../exit-codes.js';
import { escapeText } from './escape.js';
import { createProgress } from './progress.js';
import { walk } from './walk.js';

const ROUNDS_MAX = 8;
const FILE_BYTES_MAX = 50 * 1024 * 1024;

/** Resolves with the exit code. */
export async function signaturesTune(paths: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const files = await filesIn(paths);
  if (files.length === 0) {
    process.stderr.write('sluice: there is no file to learn from\n');
    return EXIT_FAILED;
  }
  const gatesDirectory = join(config.dataDirectory, 'gates');
  for (let round = 1; round <= ROUNDS_MAX; round += 1) {
    const progress = createProgress(process.stderr);
    try {
      const result = await tuneOnce({
        directories: presentFolders(config.signatureFolders),
        gatesDirectory,
        contents: () => contentsOf(files),
        onProgress: progress.loading,
        onLoaded: progress.stop,
      });
      process.stdout.write(`Round ${round}: ${describe(result)}\n`);
      if (result.learned === 0) return EXIT_CLEAN;
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
  return files;
}

/** A file that has gone, or can't be read, teaches nothing. */
async function* contentsOf(paths: readonly Buffer[]): AsyncIterable<Uint8Array> {
  for (const path of paths) {
    const content = await readFile(path).catch(() => Buffer.alloc(0));
    if (content.length > 0) yield content;
  }
}
