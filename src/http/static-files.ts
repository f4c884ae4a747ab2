// Files that are served as they lie in a folder: read once, kept in memory with their compressed forms, and with the answers that they will be.
import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import type { Reply } from './wire.js';

interface Form {
  readonly etag: string;
  readonly whole: Reply;
  /** 304: the client has it. */
  readonly known: Reply;
}

export interface StaticFile {
  readonly plain: Form;
  /** Null: it wasn't worth it. */
  readonly br: Form | null;
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

/**
 * By the path below the folder, with slashes; `headersOf` says what each is sent with besides its own headers. Throws when the folder is
 * not there, or has a file of a kind that has no type here.
 */
export function readStaticFiles(
  folder: string,
  headersOf: (path: string) => Readonly<Record<string, string>>,
): ReadonlyMap<string, StaticFile> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const names = new Set(entries.map((entry) => relative(folder, join(entry.parentPath, entry.name))));
  const files = new Map<string, StaticFile>();
  for (const name of names) {
    if (COMPRESSED.includes(extname(name))) continue;
    const contentType = TYPES[extname(name)];
    if (contentType === undefined) throw new Error(`${name} has no known content type`);
    const path = name.split(sep).join('/');
    const form = (suffix: string, coding: string | null): Form =>
      prepare(readFileSync(join(folder, name + suffix)), { contentType, coding, headers: headersOf(path) });
    files.set(path, {
      plain: form('', null),
      br: names.has(`${name}.br`) ? form('.br', 'br') : null,
      gzip: names.has(`${name}.gz`) ? form('.gz', 'gzip') : null,
    });
  }
  return files;
}

interface FormOptions {
  readonly contentType: string;
  readonly coding: string | null;
  readonly headers: Readonly<Record<string, string>>;
}

function prepare(body: Uint8Array, { contentType, coding, headers }: FormOptions): Form {
  const etag = `"${hash('sha256', body, 'base64url').slice(0, ETAG_CHARACTERS)}"`;
  const common = { ETag: etag, Vary: 'Accept-Encoding', ...headers };
  const ofContent = coding === null ? common : { ...common, 'Content-Encoding': coding };
  return {
    etag,
    whole: { status: 200, headers: ofContent, body, contentType },
    known: { status: 304, headers: common, body },
  };
}

/** The file in the best form that the client takes, or 304 when it has that already. */
export function fileReply(file: StaticFile, headers: ReadonlyMap<string, string>): Reply {
  const form = formFor(file, headers.get('accept-encoding') ?? '');
  return isKnown(headers.get('if-none-match'), form.etag) ? form.known : form.whole;
}

function formFor({ plain, br, gzip }: StaticFile, accepted: string): Form {
  if (br !== null && isAccepted(accepted, 'br')) return br;
  if (gzip !== null && isAccepted(accepted, 'gzip')) return gzip;
  return plain;
}

/** RFC 9110, section 12.5.3; a weight of zero refuses. */
function isAccepted(header: string, coding: string): boolean {
  return header.split(',').some((entry) => {
    const [name = '', ...parameters] = entry.split(';');
    return name.trim().toLowerCase() === coding && !parameters.some((one) => /^\s*q=0(\.0*)?\s*$/i.test(one));
  });
}

/** RFC 9110, section 13.1.2: compared weakly. */
function isKnown(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(',').some((entry) => ['*', etag].includes(entry.trim().replace(/^W\//, '')));
}
