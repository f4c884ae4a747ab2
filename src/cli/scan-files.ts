// The scan of many files: read ahead for all threads within bounds of memory, reported in the order in which they were found.
import type { ScanPool } from '../engine/threads/pool.js';
import { scanOnce } from '../engine/threads/scan-once.js';
import { noticesOf } from '../scan/notices.js';
import type { FileReport, Finding } from './report.js';
import { type Entry, readContent, reasonOf } from './walk.js';

/** Content in memory at one time, beside one file of the largest size. */
const MEMORY_BYTES = 56 * 1024 * 1024;
/** For each thread: one that it scans, and the next one. */
const FILES_PER_THREAD = 2;
/** Finished reports that wait for one before them. */
const REPORTS_MAX = 1024;

export interface FileScanOptions {
  readonly pool: ScanPool;
  /** The engine would stop half-way through a larger file (its limit over all layers): it is not read at all. */
  readonly fileLimitBytes: number;
  /** Ends the scan at once: what runs is not waited for, and nothing is reported any more. */
  readonly signal: AbortSignal;
  /** Called in order, and not before the call before it has resolved. */
  readonly report: (report: FileReport) => Promise<void>;
  readonly skip: (path: Buffer, reason: string) => void;
}

export async function scanFiles(entries: AsyncIterable<Entry>, options: FileScanOptions): Promise<void> {
  const { pool, signal, fileLimitBytes } = options;
  let files = 0;
  let bytes = 0;
  let reports = 0;
  let wake: () => void = () => undefined;
  const changed = (): void => wake();
  signal.addEventListener('abort', changed);

  const isFull = (more: number): boolean =>
    reports >= REPORTS_MAX ||
    files >= pool.threads * FILES_PER_THREAD ||
    (files > 0 && bytes + more > fileLimitBytes + MEMORY_BYTES);

  async function roomFor(more: number): Promise<void> {
    while (isFull(more) && !signal.aborted) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    files += 1;
    bytes += more;
    reports += 1;
  }

  let last: Promise<void> = Promise.resolve();
  function reportInTurn(found: Promise<FileReport>): void {
    last = Promise.all([found, last]).then(async ([report]) => {
      if (!signal.aborted) await options.report(report);
      reports -= 1;
      changed();
    });
    // It is waited for at the end; until then a failure must not end the process.
    last.catch(changed);
  }

  for await (const entry of entries) {
    if (signal.aborted) return;
    if (entry.kind === 'skipped') {
      options.skip(entry.path, entry.reason);
      continue;
    }
    const needed = entry.kind === 'file' && entry.sizeBytes <= fileLimitBytes ? entry.sizeBytes : 0;
    await roomFor(needed);
    if (signal.aborted) return;
    const release = (): void => {
      files -= 1;
      bytes -= needed;
      changed();
    };
    reportInTurn(examine(entry, options, release));
  }
  await Promise.race([last, aborted(signal)]);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Never rejects. Calls `release`, once, when the content is out of memory. */
async function examine(
  entry: Exclude<Entry, { kind: 'skipped' }>,
  { pool, fileLimitBytes }: FileScanOptions,
  release: () => void,
): Promise<FileReport> {
  const unread = (sizeBytes: number | null, finding: Finding): FileReport => {
    release();
    return { path: entry.path, sizeBytes, sha256: null, durationMs: null, finding };
  };
  if (entry.kind === 'failed') return unread(null, { kind: 'failed', reason: entry.reason });
  const { path, sizeBytes } = entry;
  if (sizeBytes > fileLimitBytes) {
    return unread(sizeBytes, { kind: 'incomplete', reason: `larger than ${fileLimitBytes / 1024 / 1024} MB` });
  }

  let sha256: string;
  let bytes: Uint8Array<SharedArrayBuffer>;
  try {
    const content = await readContent(path, sizeBytes, entry.followLink);
    if (content.kind === 'incomplete') return unread(sizeBytes, content);
    ({ sha256, bytes } = content);
  } catch (error) {
    return unread(sizeBytes, { kind: 'failed', reason: reasonOf(error) });
  }
  // Without content there is nothing that could match, and nothing that was not looked at.
  if (sizeBytes === 0) return { ...unread(0, { kind: 'clean', notices: [] }), sha256 };

  try {
    const outcome = await scanOnce(pool, bytes, sizeBytes);
    // After its deadline the thread may still be at it, and hold the memory.
    if (outcome.returned !== null) void outcome.returned.then(release);
    else release();
    const { durationMs } = outcome;
    return { path, sizeBytes, sha256, durationMs, finding: findingOf(outcome) };
  } catch (error) {
    return { ...unread(sizeBytes, { kind: 'incomplete', reason: reasonOf(error) }), sha256 };
  }
}

function findingOf({ verdict, engine }: Awaited<ReturnType<typeof scanOnce>>): Finding {
  if (verdict.kind === 'incomplete' || verdict.kind === 'failed') return verdict;
  const notices = engine === null ? [] : noticesOf(verdict, engine);
  return verdict.kind === 'clean' ? { kind: 'clean', notices } : { ...verdict, notices };
}
