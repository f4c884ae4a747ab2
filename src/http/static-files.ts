// Files that are served as they lie in a folder: read once, kept in memory with their compressed forms, told apart by their ETags.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import type { Exchange, Reply } from './exchange.js';

interface Form {
  readonly bytes: Uint8Array;
  readonly etag: string;
}

export interface StaticFile {
  readonly contentType: string;
  readonly plain: Form;
  /** Null: it wasn't worth it. */
  readonly brotli: Form | null;
  readonly gzip: Form | null;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.txt': 'text/plain; charset=utf-8',
};
const COMPRESSED = ['.br', '.gz'];
const ETAG_CHARACTERS = 22;

/** By the path below the folder, with slashes. Throws when the folder is not there, or has a file of a kind that has no type here. */
export function readStaticFiles(folder: string): ReadonlyMap<string, StaticFile> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = new Set(entries.map((entry) => relative(folder, join(entry.parentPath, entry.name))));
  const files = new Map<string, StaticFile>();
  for (const path of paths) {
    if (COMPRESSED.includes(extname(path))) continue;
    const contentType = TYPES[extname(path)];
    if (contentType === undefined) throw new Error(`${path} has no known content type`);
    const form = (suffix: string): Form | null => (paths.has(path + suffix) ? read(join(folder, path + suffix)) : null);
    const plain = read(join(folder, path));
    files.set(path.split(sep).join('/'), { contentType, plain, brotli: form('.br'), gzip: form('.gz') });
  }
  return files;
}

function read(path: string): Form {
  const bytes = readFileSync(path);
  return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, ETAG_CHARACTERS)}"` };
}

/** 200 in the best form that the client takes, or 304 when it has that already. */
export function fileReply(
  file: StaticFile,
  { headers }: Pick<Exchange, 'headers'>,
  extra: Readonly<Record<string, string>>,
): Reply {
  const accepted = acceptedCodings(headers.get('accept-encoding') ?? '');
  const { form, coding } = formFor(file, accepted);
  const known: Record<string, string> = { ETag: form.etag, Vary: 'Accept-Encoding', ...extra };
  if (isKnown(headers.get('if-none-match'), form.etag)) return { status: 304, headers: known, body: '' };
  const encoded = coding === null ? known : { ...known, 'Content-Encoding': coding };
  return { status: 200, headers: encoded, contentType: file.contentType, body: form.bytes };
}

function formFor({ plain, brotli, gzip }: StaticFile, accepted: ReadonlySet<string>) {
  if (brotli !== null && accepted.has('br')) return { form: brotli, coding: 'br' };
  if (gzip !== null && accepted.has('gzip')) return { form: gzip, coding: 'gzip' };
  return { form: plain, coding: null };
}

/** RFC 9110, section 12.5.3; a weight of zero refuses. */
function acceptedCodings(header: string): ReadonlySet<string> {
  const accepted = header
    .toLowerCase()
    .split(',')
    .map((entry) => entry.split(';').map((part) => part.trim()))
    .filter(([, ...parameters]) => !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter)));
  return new Set(accepted.map(([coding = '']) => coding));
}

/** RFC 9110, section 13.1.2: compared weakly. */
function isKnown(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(',').some((entry) => ['*', etag].includes(entry.trim().replace(/^W\//, '')));
}
