// The scan of many files: read ahead for all threads within bounds of memory, reported in the order in which they were found.
import type { FileReport, Finding } from './report.js';
import { type Entry, readContent, reasonOf } from './walk.js';

/** Content in memory at one time, beside one file of the largest size. */
const MEMORY_BYTES = 56 * 1024 * 1024;
/** Finished reports that wait for one before them. */
const REPORTS_MAX = 1024;

/** What came of a content. */
export interface Examined {
  readonly finding: Finding;
  /** Inside the engine; null: it never saw it. */
  readonly durationMs: number | null;
}

/** What looks at contents: an engine in this process, or a server. */
export interface Examiner {
  /** Contents at one time, read ones included. */
  readonly atOnce: number;
  /** A larger one would not be looked at as a whole: it is not read at all. */
  readonly fileLimitBytes: number;
  /** `held`: resolves when it has let go of the content; absent: it has. What it throws is the reason why it was not looked at. */
  examine(
    content: Uint8Array<SharedArrayBuffer>,
    filename: string,
  ): Promise<Examined & { readonly held?: Promise<void> }>;
}

export interface FileScanOptions {
  readonly examiner: Examiner;
  /** Ends the scan at once: what runs is not waited for, and nothing is reported any more. */
  readonly signal: AbortSignal;
  /** Called in order, and not before the call before it has resolved. */
  readonly report: (report: FileReport) => Promise<void>;
  readonly skip: (path: Buffer, reason: string) => void;
}

export async function scanFiles(entries: AsyncIterable<Entry>, options: FileScanOptions): Promise<void> {
  const { signal, examiner } = options;
  const { fileLimitBytes, atOnce } = examiner;
  let files = 0;
  let bytes = 0;
  let reports = 0;
  let wake: () => void = () => undefined;
  const changed = (): void => wake();
  signal.addEventListener('abort', changed);

  const isFull = (more: number): boolean =>
    reports >= REPORTS_MAX || files >= atOnce || (files > 0 && bytes + more > fileLimitBytes + MEMORY_BYTES);

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
    reportInTurn(examine(entry, examiner, release));
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
  examiner: Examiner,
  release: () => void,
): Promise<FileReport> {
  const unread = (sizeBytes: number | null, finding: Finding): FileReport => {
    release();
    return { path: entry.path, sizeBytes, sha256: null, durationMs: null, finding };
  };
  if (entry.kind === 'failed') return unread(null, { kind: 'failed', reason: entry.reason });
  const { path, sizeBytes } = entry;
  const { fileLimitBytes } = examiner;
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
    const { finding, durationMs, held } = await examiner.examine(bytes, nameOf(path));
    if (held !== undefined) void held.then(release);
    else release();
    return { path, sizeBytes, sha256, durationMs, finding };
  } catch (error) {
    return { ...unread(sizeBytes, { kind: 'incomplete', reason: reasonOf(error) }), sha256 };
  }
}

function nameOf(path: Buffer): string {
  const text = path.toString('utf8');
  return text.split('/').findLast((part) => part !== '') ?? text;
}
