// Files that are served as they lie in a folder: read once, kept in memory with their compressed forms, and with the answers that they will be.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { readFraming } from './framing.js';
import type { Reply } from './reply.js';
import type { AnswerHead, RequestHead } from './wire.js';

/** What a request is answered with, made before anybody asks. */
export interface PreparedAnswer {
  readonly head: AnswerHead;
  readonly body: Uint8Array;
}

/** One coding of a file's content. */
interface Form {
  readonly etag: string;
  readonly whole: PreparedAnswer;
  /** 304: the client has it; the body is that of the 200, and not sent. */
  readonly known: PreparedAnswer;
}

export interface StaticFile {
  readonly plain: Form;
  /** Null: it wasn't worth it. */
  readonly br: Form | null;
  readonly gzip: Form | null;
}

type Headers = AnswerHead['headers'];

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

function prepare(bytes: Uint8Array, { contentType, coding, headers }: FormOptions): Form {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, ETAG_CHARACTERS)}"`;
  const common: Headers = [
    ...['X-Content-Type-Options', 'nosniff'],
    ...['ETag', etag],
    ...['Vary', 'Accept-Encoding'],
    ...Object.entries(headers).flat(),
  ];
  const ofContent: Headers = ['Content-Type', contentType, ...(coding === null ? [] : ['Content-Encoding', coding])];
  return {
    etag,
    whole: { head: { status: 200, isUsual: false, headers: [...ofContent, ...common] }, body: bytes },
    known: { head: { status: 304, isUsual: false, headers: common }, body: bytes },
  };
}

/** The file in the best form that the client takes, or 304 when it has that already. */
function answerWith(file: StaticFile, headers: ReadonlyMap<string, string>): PreparedAnswer {
  const form = formFor(file, headers.get('accept-encoding') ?? '');
  return isKnown(headers.get('if-none-match'), form.etag) ? form.known : form.whole;
}

/** The same for the way that all requests go. */
export function fileReply(file: StaticFile, asked: ReadonlyMap<string, string>): Reply {
  const { head, body } = answerWith(file, asked);
  const headers: Record<string, string> = {};
  for (let at = 0; at < head.headers.length; at += 2) headers[head.headers[at] ?? ''] = head.headers[at + 1] ?? '';
  const { 'Content-Type': contentType, ...others } = headers;
  return { status: head.status, headers: others, body, ...(contentType === undefined ? {} : { contentType }) };
}

/**
 * Finds the answer to a request for a file by what came before its body. Null: it goes the way of all requests, as does everything here
 * that is not plainly a GET without a body.
 */
export function createFileFinder(
  files: ReadonlyMap<string, StaticFile>,
): (head: RequestHead) => { readonly answer: PreparedAnswer; readonly headers: ReadonlyMap<string, string> } | null {
  return (head) => {
    const file = head.method === 'GET' && head.version === '1.1' ? files.get(head.path) : undefined;
    if (file === undefined) return null;
    const { headers, body, problem } = readFraming(head);
    return problem === null && body.kind === 'none' ? { answer: answerWith(file, headers), headers } : null;
  };
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
