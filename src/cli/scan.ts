// `sluice scan`: files and folders through an engine in this process or a server, with findings on stdout and the rest on stderr.
import { realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { readConfig } from '../config/config.js';
import { isClosedToOthers, isOurs } from '../engine/scratch.js';
import { makeFolder } from '../paths.js';
import { createServerExaminer, ServerRefuses, startEngineExaminer } from './examiners.js';
import { createOutput, EXIT_CLEAN, EXIT_FAILED, EXIT_INFECTED, escapePath, escapeText, untilSignal } from './output.js';
import { createProgress, type Progress } from './progress.js';
import {
  type Examiner,
  type FileReport,
  jsonFormat,
  STANDARD_INPUT,
  type Summary,
  scanFiles,
  textFormat,
  walk,
} from './scan-files.js';
import { findServiceOfScan } from './service-place.js';

export interface ScanCommand {
  readonly paths: readonly string[];
  readonly json: boolean;
  /** Of the findings, those of infected files alone. */
  readonly infectedOnly: boolean;
  /** Absent: the engine in this process scans. */
  readonly server?: string;
  /** For the server; absent: the environment has it. */
  readonly key?: string;
}

/** Resolves with the exit code. Native threads may still be busy then: the caller exits. */
export async function scan(command: ScanCommand, env: NodeJS.ProcessEnv): Promise<number> {
  const progress = createProgress();
  const note = (text: string): void => {
    progress.hide();
    process.stderr.write(`sluice: ${text}\n`);
  };
  try {
    return await untilSignal(async (stop) => {
      const around = { stop, progress, note };
      const examiner = await openExaminer(command, env, around);
      return examiner === null ? EXIT_FAILED : await scanWith(examiner, command, around);
    });
  } finally {
    progress.stop();
  }
}

interface ScanSurroundings {
  readonly stop: AbortController;
  readonly progress: Progress;
  /** A line on stderr. */
  readonly note: (text: string) => void;
}

type OpenedExaminer = Examiner & { stop?(): Promise<void> };

/** Null: there is nothing to scan with, as a note has said. */
async function openExaminer(
  command: ScanCommand,
  env: NodeJS.ProcessEnv,
  around: ScanSurroundings,
): Promise<OpenedExaminer | null> {
  const { stop, progress, note } = around;
  const { server } = command;
  if (command.paths.filter((path) => path === STANDARD_INPUT).length > 1) {
    note('- is standard input, which can be read once: name it once');
    return null;
  }
  if (server === undefined && command.key !== undefined) {
    note('--key is for --server, which is not given');
    return null;
  }
  if (server === undefined) {
    const config = readConfig(findServiceOfScan(env));
    const gatesDirectory = config.hasGates && (await isMuch(command.paths)) ? ownFolder(env) : null;
    return await startEngineExaminer({
      ...{ config, gatesDirectory, note },
      signal: stop.signal,
      onLoading: progress.loading,
    });
  }
  const key = command.key ?? env['SLUICE_API_KEY'] ?? '';
  if (key === '') {
    note('a server asks for a key: --key, or SLUICE_API_KEY in the environment');
    return null;
  }
  // It comes to nobody's eyes, not even in the error of a request that can't be made with it.
  if (!/^[\x21-\x7e]+$/.test(key)) {
    note('the key has characters that no key has');
    return null;
  }
  try {
    const onWait = (seconds: number, reason: string) => note(`${escapeText(reason)}: waiting ${seconds} s`);
    return createServerExaminer({ url: server, key, signal: stop.signal, onWait });
  } catch (error) {
    if (!(error instanceof ServerRefuses)) throw error;
    note(error.message);
    return null;
  }
}

async function scanWith(examiner: OpenedExaminer, command: ScanCommand, around: ScanSurroundings): Promise<number> {
  const { stop, progress, note } = around;
  const tally = createTally();
  const format = command.json ? jsonFormat() : textFormat();
  const output = createOutput(process.stdout, progress, () => stop.abort());
  await output.write(format.start());
  if (progress.shown) countFiles(command.paths, progress, stop.signal);
  let refusal: string | null = null;
  await scanFiles(walk(command.paths), {
    examiner: {
      ...examiner,
      async examine(content, filename) {
        try {
          return await examiner.examine(content, filename);
        } catch (error) {
          if (!(error instanceof ServerRefuses)) throw error;
          refusal ??= escapeText(error.message);
          stop.abort();
          throw error;
        }
      },
    },
    signal: stop.signal,
    async report(report) {
      tally.add(report);
      if (!command.infectedOnly || report.finding.kind === 'infected') await output.write(format.file(report));
      if (progress.shown) progress.scanned(tally.files());
    },
    skip(path, reason) {
      tally.skip();
      if (!command.infectedOnly) note(`skipped ${escapePath(path)}: ${reason}`);
    },
  });
  progress.stop();
  if (refusal !== null) note(refusal);
  const summary = tally.summary(stop.signal.aborted);
  await output.write(format.end(summary));
  await examiner.stop?.();
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

/** Gates cost about as much, with ClamAV's signatures and before they are kept, as they spare over so many bytes of documents. */
const WORTH_BYTES = 8 * 1024 * 1024;
/** What a small file costs besides its bytes, as bytes. */
const FILE_BYTES = 8 * 1024;

async function isMuch(paths: readonly string[]): Promise<boolean> {
  let bytes = 0;
  for await (const entry of walk(paths)) {
    if (entry.kind === 'file') bytes += FILE_BYTES + entry.sizeBytes;
    if (bytes >= WORTH_BYTES) return true;
  }
  return false;
}

/** In the user's folder of caches (XDG Base Directory Specification 0.8); null: it is not the user's alone. Who writes there, or puts another folder in the place of one above it, decides what is looked at. */
function ownFolder(env: NodeJS.ProcessEnv): string | null {
  const named = env['XDG_CACHE_HOME'] ?? '';
  try {
    // Throws for a user that /etc/passwd doesn't know and who has no HOME.
    const folder = join(isAbsolute(named) ? named : join(homedir(), '.cache'), 'sluice', 'gates');
    makeFolder(folder);
    return isOurs(statSync(folder)) && isClosedToOthers(folder) ? realpathSync(folder) : null;
  } catch {
    // Nothing can be kept there: one engine looks at everything.
    return null;
  }
}
