// `sluice signatures tune`: learns from clean files which gates hit for nothing, until none does.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../config.js';
import { gateStatistics, scanBuffer } from '../engine/addon.js';
import { learnNoise } from '../engine/clamav/gates/noise.js';
import { presentFolders } from '../engine/folders.js';
import { loadSignatures } from '../engine/signatures.js';
import { escapeText } from './escape.js';
import { EXIT_CLEAN, EXIT_FAILED } from './exit-codes.js';
import { createProgress } from './progress.js';
import { walk } from './walk.js';

const ROUNDS_MAX = 8;
const FILE_BYTES_MAX = 50 * 1024 * 1024;
const SCAN_TIMEOUT_MS = 60_000;

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
    const signatures = loadSignatures({
      directories: presentFolders(config.signatureFolders),
      engine: 'clamav',
      scanTimeoutMs: SCAN_TIMEOUT_MS,
      gatesDirectory,
      onProgress: progress.loading,
    });
    try {
      const { gates } = await signatures.ready();
      progress.stop();
      for (const path of files) await scan(path);
      const learned = await learnNoise(gatesDirectory, gates?.keys ?? [], 1);
      process.stdout.write(`Round ${round}: ${describe()}, ${learned} gates given up\n`);
      if (learned === 0) return EXIT_CLEAN;
    } catch (error) {
      process.stderr.write(`sluice: ${escapeText(error instanceof Error ? error.message : String(error))}\n`);
      return EXIT_FAILED;
    } finally {
      progress.stop();
      await signatures.stop();
    }
  }
  return EXIT_CLEAN;
}

function describe(): string {
  const { scans, secondLooks, inVain } = gateStatistics() ?? { scans: 0, secondLooks: 0, inVain: 0 };
  return `${scans} scans, ${secondLooks} second looks, ${inVain} of them for nothing`;
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
async function scan(path: Buffer): Promise<void> {
  const content = await readFile(path).catch(() => Buffer.alloc(0));
  if (content.length > 0) scanBuffer(content);
}
