// The scan of many files: found in the order of their names, read ahead for all threads within bounds of memory, and reported in that order, as one line each or as one
// JSON document.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, stat } from 'node:fs/promises';
import { codeOf, messageOfError } from '../error-text.js';
import { extensionOf } from '../filename.js';
import { counted, escapePath, escapeText, safeJson } from './output.js';

/** Content in memory at one time, beside one file of the largest size. */
const MEMORY_BYTES = 56 * 1024 * 1024;
/** Finished reports that wait for one before them. */
const REPORTS_MAX = 1024;

export interface Examined {
  readonly finding: Finding;
  /** Inside the engine; null: it never saw it. */
  readonly durationMs: number | null;
}

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
    const needed = bytesNeeded(entry, fileLimitBytes);
    await roomFor(needed);
    if (signal.aborted) return;
    const release = (): void => {
      files -= 1;
      bytes -= needed;
      changed();
    };
    reportInTurn(examine(entry, examiner, release));
  }
  if (!signal.aborted) await Promise.race([last, once(signal, 'abort')]);
}

/** Memory for its content, at most. */
function bytesNeeded(entry: Entry, fileLimitBytes: number): number {
  if (entry.kind === 'input') return fileLimitBytes;
  return entry.kind === 'file' && entry.sizeBytes <= fileLimitBytes ? entry.sizeBytes : 0;
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
  const { path } = entry;
  const foundBytes = entry.kind === 'file' ? entry.sizeBytes : null;
  let content: FileContent;
  try {
    content = await readEntry(entry, examiner.fileLimitBytes);
  } catch (error) {
    return unread(foundBytes, { kind: 'failed', reason: reasonOf(error) });
  }
  if (content.kind === 'incomplete') return unread(foundBytes, content);
  const { sha256, bytes, sizeBytes } = content;
  // Without content there is nothing that could match, and nothing that was not looked at.
  if (sizeBytes === 0) {
    const finding: Finding = entry.kind === 'input' ? NOTHING_CAME : { kind: 'clean', notices: [] };
    return { ...unread(0, finding), sha256 };
  }

  try {
    const { finding, durationMs, held } = await examiner.examine(bytes, nameOf(path));
    if (held !== undefined) void held.then(release);
    else release();
    return { path, sizeBytes, sha256, durationMs, finding };
  } catch (error) {
    return { ...unread(sizeBytes, { kind: 'incomplete', reason: reasonOf(error) }), sha256 };
  }
}

/** A pipe whose other end has failed looks like that: its content is not there to be called clean. */
const NOTHING_CAME: Finding = { kind: 'failed', reason: 'nothing came: the program before the pipe may have failed' };

function nameOf(path: Buffer): string {
  const text = path.toString('utf8');
  return text.split('/').findLast((part) => part !== '') ?? text;
}

export interface FileReport {
  readonly path: Buffer;
  /** Null when it could not be found out. */
  readonly sizeBytes: number | null;
  /** Null when the content was not read. */
  readonly sha256: string | null;
  /** Time inside the engine; null when the engine never saw it. */
  readonly durationMs: number | null;
  readonly finding: Finding;
}

export type Finding =
  /** `notices`: what is said beside it, as in X-Scan-Notice. */
  | { readonly kind: 'clean'; readonly notices: readonly string[] }
  | { readonly kind: 'infected'; readonly virusName: string; readonly notices: readonly string[] }
  /** Not wholly looked at. */
  | { readonly kind: 'incomplete'; readonly reason: string }
  /** Not looked at at all. */
  | { readonly kind: 'failed'; readonly reason: string };

export interface Summary {
  readonly files: number;
  readonly clean: number;
  readonly infected: number;
  readonly incomplete: number;
  readonly failed: number;
  /** Links and special files inside folders. */
  readonly skipped: number;
  readonly bytes: number;
  readonly durationMs: number;
  /** A signal, a reader that is gone or a server that refuses ended the scan before its end. */
  readonly interrupted: boolean;
}

/** Turns reports into text; what `file` and `end` return is to be written in the order of the calls. */
export interface Format {
  start(): string;
  file(report: FileReport): string;
  end(summary: Summary): string;
}

export function textFormat(): Format {
  return {
    start: () => '',
    file: ({ path, finding }) => `${escapePath(path)}: ${findingText(finding)}\n`,
    end: (summary) => `\n${summaryText(summary)}\n`,
  };
}

function findingText(finding: Finding): string {
  switch (finding.kind) {
    case 'clean':
      return `CLEAN${noticesText(finding.notices)}`;
    case 'infected':
      return `INFECTED ${escapeText(finding.virusName)}${noticesText(finding.notices)}`;
    case 'incomplete':
      return `INCOMPLETE ${escapeText(finding.reason)}`;
    case 'failed':
      return `FAILED ${escapeText(finding.reason)}`;
  }
}

/** ` (encrypted)`, or nothing. */
const noticesText = (notices: readonly string[]): string => (notices.length === 0 ? '' : ` (${notices.join(', ')})`);

function summaryText({ files, clean, infected, incomplete, failed, skipped, bytes, durationMs, interrupted }: Summary) {
  const counts = [`${clean} clean`, `${infected} infected`, `${incomplete} incomplete`, `${failed} failed`];
  if (skipped > 0) counts.push(`${skipped} skipped`);
  const seconds = (durationMs / 1000).toFixed(1);
  const head = interrupted ? 'Stopped after' : 'Scanned';
  return `${head} ${counted(files, 'file')}: ${counts.join(', ')} (${megabytes(bytes)} MB in ${seconds} s)`;
}

const megabytes = (bytes: number): string => (bytes / (1024 * 1024)).toFixed(1);

/** `{"files": [...], "summary": {...}}`, a file on each line, so that no list of them is ever in memory. */
export function jsonFormat(): Format {
  let separator = '\n';
  return {
    start: () => '{"files":[',
    file(report) {
      const line = `${separator}${safeJson(fileJson(report))}`;
      separator = ',\n';
      return line;
    },
    end({ durationMs, bytes, ...counts }) {
      const summary = { ...counts, sizeInBytes: bytes, durationMillis: Math.round(durationMs) };
      return `\n],"summary":${safeJson(summary)}}\n`;
    },
  };
}

function fileJson({ path, sizeBytes, sha256, durationMs, finding }: FileReport) {
  // A name that is not UTF-8 has U+FFFD here: JSON has no bytes.
  const filename = nameOf(path);
  return {
    path: path.toString('utf8'),
    filename,
    extension: extensionOf(filename),
    sizeInBytes: sizeBytes,
    sha256,
    scanDurationMillis: durationMs === null ? null : Math.round(durationMs),
    infected: finding.kind === 'clean' ? false : finding.kind === 'infected' ? true : null,
    virusName: finding.kind === 'infected' ? finding.virusName : null,
    notices: finding.kind === 'clean' || finding.kind === 'infected' ? finding.notices : [],
    error: finding.kind === 'incomplete' || finding.kind === 'failed' ? finding.reason : null,
  };
}

/** Paths are bytes: a name that is not UTF-8 must not hide a file. */
export type Entry =
  /** Standard input: nobody knows how much that is. */
  | { readonly kind: 'input'; readonly path: Buffer }
  | { readonly kind: 'file'; readonly path: Buffer; readonly sizeBytes: number; readonly followLink: boolean }
  /** In a folder, but neither a file nor a folder. */
  | { readonly kind: 'skipped'; readonly path: Buffer; readonly reason: string }
  | { readonly kind: 'failed'; readonly path: Buffer; readonly reason: string };

/** In the place of a path. A file of that name is `./-`. */
export const STANDARD_INPUT = '-';

/**
 * A link that is named on the command line is followed, one inside a folder is not. At any moment one list of names per level
 * of folders is in memory.
 */
export async function* walk(paths: readonly string[]): AsyncGenerator<Entry> {
  for (const name of paths) {
    const path = Buffer.from(name);
    if (name === STANDARD_INPUT) {
      yield { kind: 'input', path };
      continue;
    }
    yield* entriesAt(path, true);
  }
}

async function* entriesAt(path: Buffer, followLink: boolean): AsyncGenerator<Entry> {
  const found = await attempt(() => (followLink ? stat(path) : lstat(path)));
  if (!found.ok) yield { kind: 'failed', path, reason: found.reason };
  else if (found.value.isDirectory()) yield* walkFolder(path);
  else if (found.value.isFile()) yield { kind: 'file', path, sizeBytes: found.value.size, followLink };
  else if (followLink)
    yield { kind: 'failed', path, reason: `neither a file nor a folder, but ${kindOf(found.value)}` };
  else yield { kind: 'skipped', path, reason: kindOf(found.value) };
}

async function* walkFolder(folder: Buffer): AsyncGenerator<Entry> {
  const listed = await attempt(() => readdir(folder, { encoding: 'buffer' }));
  if (!listed.ok) {
    yield { kind: 'failed', path: folder, reason: listed.reason };
    return;
  }
  for (const name of listed.value.sort(Buffer.compare)) yield* entriesAt(join(folder, name), false);
}

function join(folder: Buffer, name: Buffer): Buffer {
  const separator = folder.at(-1) === 0x2f ? '' : '/';
  return Buffer.concat([folder, Buffer.from(separator), name]);
}

function kindOf(stats: Stats): string {
  if (stats.isSymbolicLink()) return 'a symbolic link';
  if (stats.isFIFO()) return 'a named pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}

async function attempt<Value>(
  act: () => Promise<Value>,
): Promise<{ readonly ok: true; readonly value: Value } | { readonly ok: false; readonly reason: string }> {
  try {
    return { ok: true, value: await act() };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EIO: 'input/output error',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'became a link, or too many links',
  ENOTDIR: 'a part of the path is not a folder',
};

/** What the system says of a path that can't be read, without repeating the path. */
function reasonOf(error: unknown): string {
  const code = codeOf(error);
  return code === null ? messageOfError(error) : (REASONS[code] ?? code);
}

export type FileContent =
  | {
      readonly kind: 'read';
      readonly bytes: Uint8Array<SharedArrayBuffer>;
      readonly sizeBytes: number;
      readonly sha256: string;
    }
  | { readonly kind: 'incomplete'; readonly reason: string };

/** Bytes hashed at one go, so that a large file doesn't hold up the thread that feeds the others. */
const SLICE_BYTES = 4 * 1024 * 1024;

/** Rejects with the system's error. */
async function readEntry(entry: Extract<Entry, { kind: 'input' | 'file' }>, limitBytes: number): Promise<FileContent> {
  if (entry.kind === 'input') return await readInput(limitBytes);
  const { path, sizeBytes, followLink } = entry;
  return sizeBytes > limitBytes ? tooLarge(limitBytes) : await readContent(path, sizeBytes, followLink);
}

function tooLarge(limitBytes: number): FileContent {
  return { kind: 'incomplete', reason: `larger than ${limitBytes / 1024 / 1024} MB` };
}

/** All of it is one content. */
async function readInput(limitBytes: number): Promise<FileContent> {
  const chunks: Buffer[] = [];
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) return tooLarge(limitBytes);
    hash.update(chunk);
    chunks.push(chunk);
  }
  const bytes = new Uint8Array(new SharedArrayBuffer(sizeBytes));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return { kind: 'read', bytes, sizeBytes, sha256: hash.digest('hex') };
}

/**
 * Reads at most the size that the file had when it was found: memory was set aside for that. Rejects with the system's error.
 * A link in place of the file, put there since, is only followed where it was named on the command line.
 */
async function readContent(path: Buffer, sizeBytes: number, followLink: boolean): Promise<FileContent> {
  // A named pipe, put there since, must not block: nobody may ever write to it.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | (followLink ? 0 : constants.O_NOFOLLOW);
  const file = await open(path, flags);
  try {
    if (!(await file.stat()).isFile()) return { kind: 'incomplete', reason: 'the file was replaced while it was read' };
    const bytes = new Uint8Array(new SharedArrayBuffer(sizeBytes));
    const hash = createHash('sha256');
    let filled = 0;
    while (filled < sizeBytes) {
      const target = bytes.subarray(filled, Math.min(filled + SLICE_BYTES, sizeBytes));
      const { bytesRead } = await file.read(target, 0, target.length, null);
      if (bytesRead === 0) break;
      hash.update(target.subarray(0, bytesRead));
      filled += bytesRead;
    }
    // Files of /proc say 0 and have content; a log grows.
    if (filled < sizeBytes || (await hasMore(file))) {
      return { kind: 'incomplete', reason: 'the file changed while it was read' };
    }
    return { kind: 'read', bytes, sizeBytes: filled, sha256: hash.digest('hex') };
  } finally {
    await file.close();
  }
}

async function hasMore(file: FileHandle): Promise<boolean> {
  const { bytesRead } = await file.read(new Uint8Array(1), 0, 1, null);
  return bytesRead > 0;
}
