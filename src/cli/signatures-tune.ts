// `sluice signatures tune`: learns from clean files what gates must not be made of, so that few contents are looked at twice.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../config/config.js';
import { presentFolders } from '../engine/folders.js';
import { type TuneResult, tune } from '../engine/tune.js';
import { messageOfError } from '../error-text.js';
import { EXIT_CLEAN, EXIT_FAILED } from '../exit-codes.js';
import { escapeText } from './output.js';
import { createProgress, type Progress } from './progress.js';
import { findServiceIfAny } from './service-place.js';
import { walk } from './walk.js';

const FILE_BYTES_MAX = 50 * 1024 * 1024;
const LISTING = 'Listing what gates can be made of';

/** Resolves with the exit code. */
export async function signaturesTune(paths: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(findServiceIfAny(env) ?? env);
  const files = await filesIn(paths);
  if (files.length === 0) {
    process.stderr.write('sluice: there is no file to learn from\n');
    return EXIT_FAILED;
  }
  const progress = createProgress(process.stderr);
  progress.doing(LISTING, 0);
  try {
    const result = await tune({
      directories: presentFolders(config.signatureFolders),
      gatesDirectory: join(config.dataDirectory, 'gates'),
      contents: () => contentsOf(files, progress),
      onListing: (fraction) => progress.doing(LISTING, fraction),
      onMaking: () => progress.doing('Making gates', null),
    });
    progress.hide();
    process.stdout.write(`${describe(result)}\n`);
    return EXIT_CLEAN;
  } catch (error) {
    process.stderr.write(`sluice: ${escapeText(messageOfError(error))}\n`);
    return EXIT_FAILED;
  } finally {
    progress.stop();
  }
}

function describe({ contents, learned, facts }: TuneResult): string {
  return `${contents} files, ${learned} windows learned: ${facts.gated} logical signatures are behind ${facts.gates} gates now`;
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
async function* contentsOf(paths: readonly Buffer[], progress: Progress): AsyncIterable<Uint8Array> {
  progress.total(paths.length);
  for (const [index, path] of paths.entries()) {
    progress.scanned(index);
    const content = await readFile(path).catch(() => Buffer.alloc(0));
    if (content.length > 0) yield content;
  }
  progress.scanned(paths.length);
}
