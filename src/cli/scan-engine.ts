// The contents of `sluice scan` without a server: through an engine in this process.
import type { Config } from '../config/config.js';
import { loadSignatures } from '../engine/signatures.js';
import { createStandings, MEANINGS } from '../engine/standing.js';
import { ScanPool } from '../engine/threads/pool.js';
import { findSandbox } from '../engine/threads/sandbox.js';
import { scanOnce } from '../engine/threads/scan-once.js';
import { noticesOf } from '../engine/verdict.js';
import { messageOfError } from '../error-text.js';
import type { Finding } from './report.js';
import type { Examiner } from './scan-files.js';

/** For each thread: one content that it scans, and the next one. */
const FILES_PER_THREAD = 2;

export interface EngineScanOptions {
  readonly config: Config;
  /** Where the files of gates are kept; null: there are none. */
  readonly gatesDirectory: string | null;
  readonly signal: AbortSignal;
  /** 0 to 1. */
  readonly onLoading: (fraction: number) => void;
  readonly note: (text: string) => void;
}

export interface EngineExaminer extends Examiner {
  stop(): Promise<void>;
}

/** Null: it can't be had, as a note says, or the scan has been ended meanwhile. */
export async function startEngineExaminer({
  config,
  gatesDirectory,
  signal,
  onLoading,
  note,
}: EngineScanOptions): Promise<EngineExaminer | null> {
  const signatures = loadSignatures({
    ...config.signatureFolders,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    gatesDirectory,
    onProgress: onLoading,
    onEvent: (event) => {
      if (event.kind === 'warning') note(event.message);
    },
  });
  const interrupted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  try {
    const engine = await Promise.race([signatures.ready(), interrupted]);
    if (engine !== undefined && createStandings(config.signatureFolders, Date.now)(engine) === 'starter') {
      const todo = "`sluice signatures update` fetches ClamAV's";
      note(`${engine.signatureCount} signatures serve, ${MEANINGS.starter}. ${todo}`);
    }
  } catch (error) {
    note(`the signatures could not be loaded: ${messageOfError(error)}`);
    await signatures.stop();
    return null;
  }
  // A load can't be broken off; its empty temporary folder goes with the next start.
  if (signal.aborted) return null;
  try {
    const sandbox = findSandbox(config.sandbox);
    const pool = new ScanPool({
      threads: config.scanThreads,
      // There is one account, which needs nobody to stand in for it and may have three quarters of the queue.
      threadsMost: config.scanThreads,
      queueLimit: config.scanThreads * 4,
      // The file before this one may use up a whole deadline of the engine's; this one's own begins after it.
      scanTimeoutMs: config.scanTimeoutMs * 2,
      encryptedArchives: config.encryptedArchives,
      sandbox: sandbox.mode,
    });
    return {
      atOnce: pool.threads * FILES_PER_THREAD,
      // The engine would stop half-way through a larger file (its limit over all layers).
      fileLimitBytes: config.scanLimits.maxScanSizeBytes,
      async examine(content) {
        const outcome = await scanOnce(pool, content, content.length);
        const { durationMs, returned } = outcome;
        // After its deadline the thread may still be at it, and hold the memory.
        return { finding: findingOf(outcome), durationMs, ...(returned === null ? {} : { held: returned }) };
      },
      async stop() {
        // What still runs at an interruption ends with the process.
        if (!signal.aborted) await pool.stop();
        await signatures.stop();
      },
    };
  } catch (error) {
    note(messageOfError(error));
    await signatures.stop();
    return null;
  }
}

function findingOf({ verdict, engine }: Awaited<ReturnType<typeof scanOnce>>): Finding {
  if (verdict.kind === 'incomplete' || verdict.kind === 'failed') return verdict;
  const notices = engine === null ? [] : noticesOf(verdict, engine.notice);
  return verdict.kind === 'clean'
    ? { kind: 'clean', notices }
    : { kind: 'infected', virusName: verdict.virusName, notices };
}
