// What `sluice scan` says on stdout: one line for each file and a summary, or one JSON document, written as the scan goes on.
import { extensionOf } from '../filename.js';
import { escapePath, escapeText, safeJson } from './output.js';

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
function noticesText(notices: readonly string[]): string {
  return notices.length === 0 ? '' : ` (${notices.join(', ')})`;
}

function summaryText({ files, clean, infected, incomplete, failed, skipped, bytes, durationMs, interrupted }: Summary) {
  const counts = [`${clean} clean`, `${infected} infected`, `${incomplete} incomplete`, `${failed} failed`];
  if (skipped > 0) counts.push(`${skipped} skipped`);
  const seconds = (durationMs / 1000).toFixed(1);
  const head = interrupted ? 'Stopped after' : 'Scanned';
  return `${head} ${files} ${files === 1 ? 'file' : 'files'}: ${counts.join(', ')} (${megabytes(bytes)} MB in ${seconds} s)`;
}

function megabytes(bytes: number): string {
  return (bytes / (1024 * 1024)).toFixed(1);
}

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
  const text = path.toString('utf8');
  const filename = text.split('/').findLast((part) => part !== '') ?? text;
  return {
    path: text,
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
