// `sluice scan`: files and folders through an engine in this process, with findings on stdout and the rest on stderr.

import { constants } from 'node:os';
import { performance } from 'node:perf_hooks';
import { type Config, readConfig } from '../config/config.js';
import { loadSignatures } from '../engine/signatures.js';
import { startPool } from '../engine/threads/pool.js';
import { type FoundSandbox, findSandbox } from '../engine/threads/sandbox.js';
import { messageOfError } from '../error-text.js';
import { EXIT_CLEAN, EXIT_FAILED, EXIT_INFECTED, EXIT_SIGNAL_BASE } from '../exit-codes.js';
import { createOutput, escapePath } from './output.js';
import { createProgress, type Progress } from './progress.js';
import { type FileReport, jsonFormat, type Summary, textFormat } from './report.js';
import { scanFiles } from './scan-files.js';
import { walk } from './walk.js';

export interface ScanCommand {
  readonly paths: readonly string[];
  readonly json: boolean;
}

/** Resolves with the exit code. Native threads may still be busy then: the caller exits. */
export async function scan(command: ScanCommand, env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const stop = new AbortController();
  let stoppedBy: NodeJS.Signals | null = null;
  const onSignal = (signal: NodeJS.Signals): void => {
    stoppedBy = signal;
    stop.abort();
  };
  // Once: a second Ctrl-C ends the process as it does without us.
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  const progress = createProgress(process.stderr);
  const note = (text: string): void => {
    progress.hide();
    process.stderr.write(`sluice: ${text}\n`);
  };
  try {
    const exitCode = await scanWith(config, command, { stop, progress, note });
    return stoppedBy === null ? exitCode : EXIT_SIGNAL_BASE + constants.signals[stoppedBy];
  } finally {
    progress.stop();
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

interface Surroundings {
  readonly stop: AbortController;
  readonly progress: Progress;
  /** A line on stderr. */
  readonly note: (text: string) => void;
}

async function scanWith(config: Config, command: ScanCommand, { stop, progress, note }: Surroundings): Promise<number> {
  const signatures = loadSignatures({
    ...config.signatureFolders,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    onProgress: progress.loading,
    onEvent: (event) => {
      if (event.kind === 'warning') note(event.message);
    },
  });
  const interrupted = new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()));
  try {
    await Promise.race([signatures.ready(), interrupted]);
  } catch (error) {
    note(`the signatures could not be loaded: ${messageOfError(error)}`);
    await signatures.stop();
    return EXIT_FAILED;
  }
  // A load can't be broken off; its empty temporary folder goes with the next start.
  if (stop.signal.aborted) return EXIT_FAILED;

  let sandbox: FoundSandbox;
  try {
    sandbox = findSandbox(config.sandbox);
  } catch (error) {
    note(messageOfError(error));
    await signatures.stop();
    return EXIT_FAILED;
  }
  const pool = startPool({
    threads: config.scanThreads,
    // There is one account, which needs nobody to stand in for it and may have three quarters of the queue.
    threadsMost: config.scanThreads,
    queueLimit: config.scanThreads * 4,
    // The file before this one may use up a whole deadline of the engine's; this one's own begins after it.
    scanTimeoutMs: config.scanTimeoutMs * 2,
    encryptedArchives: config.encryptedArchives,
    sandbox: sandbox.mode,
  });
  const tally = createTally();
  const format = command.json ? jsonFormat() : textFormat();
  const output = createOutput(process.stdout, progress, () => stop.abort());
  await output.write(format.start());
  if (progress.shown) countFiles(command.paths, progress, stop.signal);
  await scanFiles(walk(command.paths), {
    pool,
    fileLimitBytes: config.scanLimits.maxScanSizeBytes,
    signal: stop.signal,
    async report(report) {
      tally.add(report);
      await output.write(format.file(report));
      if (progress.shown) progress.scanned(tally.files());
    },
    skip(path, reason) {
      tally.skip();
      note(`skipped ${escapePath(path)}: ${reason}`);
    },
  });
  progress.stop();
  const summary = tally.summary(stop.signal.aborted);
  await output.write(format.end(summary));
  // What still runs at an interruption ends with the process.
  if (!stop.signal.aborted) await pool.stop();
  await signatures.stop();
  return stop.signal.aborted ? EXIT_FAILED : exitCodeOf(summary);
}

function exitCodeOf({ infected, incomplete, failed }: Summary): number {
  if (infected > 0) return EXIT_INFECTED;
  return incomplete + failed > 0 ? EXIT_FAILED : EXIT_CLEAN;
}

/** Beside the scan, which doesn't know what it has not come to yet. What can't be counted only makes the bar wrong. */
function countFiles(paths: readonly string[], progress: Progress, signal: AbortSignal): void {
  const count = async (): Promise<void> => {
    let files = 0;
    for await (const { kind } of walk(paths)) {
      if (signal.aborted) return;
      if (kind === 'skipped') continue;
      files += 1;
      if (files % 100 === 0) progress.total(files);
    }
    progress.total(files);
  };
  void count();
}

function createTally() {
  const startedMs = performance.now();
  const counts = { clean: 0, infected: 0, incomplete: 0, failed: 0 };
  let skipped = 0;
  let bytes = 0;
  const files = (): number => counts.clean + counts.infected + counts.incomplete + counts.failed;
  return {
    files,
    add({ finding, sha256, sizeBytes }: FileReport): void {
      counts[finding.kind] += 1;
      // What was read.
      if (sha256 !== null) bytes += sizeBytes ?? 0;
    },
    skip(): void {
      skipped += 1;
    },
    summary(interrupted: boolean): Summary {
      return { files: files(), ...counts, skipped, bytes, durationMs: performance.now() - startedMs, interrupted };
    },
  };
}
