// What the HTTP libraries have in common: one request as it was read off its connection, what its headers say of its body and whether they contradict themselves (RFC 9112
// section 6.3), an answer with its head, the ways to send it, and a server of requests.
import { STATUS_CODES } from 'node:http';
import { challengeOf, errorTable, type Failure, messageOf } from '../errors.js';
import { randomId } from '../ids.js';
import type { Accepting, AcceptorOptions } from './acceptor.js';
import type { ConnectionLimits } from './connections.js';

/** What came before the body, as it was sent. */
export interface RequestHead {
  readonly method: string;
  /** Up to the question mark, nothing decoded. */
  readonly path: string;
  /** What is behind it; empty when there is none. */
  readonly query: string;
  readonly version: '1.0' | '1.1';
  /** In their order, each name, in lower case, before its value. */
  readonly headers: readonly string[];
}

/** What nearly all answers say, each name before its value. */
export const USUAL_HEADERS: readonly string[] = [
  ...['X-Content-Type-Options', 'nosniff'],
  ...['Cache-Control', 'no-store'],
  ...['Content-Type', 'application/json; charset=utf-8'],
];

/** What goes before the body of an answer; the library adds the date, and how the body is delimited. */
export interface AnswerHead {
  readonly status: number;
  /** The usual headers come first. */
  readonly isUsual: boolean;
  /** In their order, each name before its value. */
  readonly headers: readonly string[];
}

/** The request that a wire carries, which hears what comes of its connection. */
export interface WireOwner {
  /** The bytes are the owner's only until it returns. */
  onBytes(bytes: Buffer, isLast: boolean): void;
  /** The client has taken something of an answer in pieces. */
  onRoom(): void;
  /** All of the answer is out of our hands, or the connection ended before it was: the wire must not be touched any more. */
  onEnd(isSent: boolean): void;
}

/**
 * One request and its connection, for as long as neither the answer is whole nor the client gone: nothing may be called after
 * that. Of an answer, `closes` says that the connection ends with it.
 */
export interface Wire {
  readonly head: RequestHead;
  /** To be called at once; bytes are heard of only if there is a body. */
  open(owner: WireOwner, hasBody: boolean): void;
  remoteAddress(): string;
  /** Stops reading; what was read already is still delivered. */
  pause(): void;
  resume(): void;
  /** The body is sent as the client takes it. */
  answer(head: AnswerHead, body: string | Uint8Array, closes: boolean): void;
  /** `lengthBytes`: of the body that is not sent; null: nothing is said about it. */
  answerWithoutBody(head: AnswerHead, lengthBytes: number | null, closes: boolean): void;
  /** Sends all of the answer but its last byte. */
  answerButOneByte(head: AnswerHead, body: Uint8Array): void;
  /** Sends that one. */
  answerRest(): void;
  /** Begins an answer of pieces of unknown number. */
  beginPieces(head: AnswerHead, closes: boolean): void;
  /** False: the client has to take something first. */
  writePiece(piece: string): boolean;
  endPieces(): void;
  /** Ends the connection at once, so that nobody takes what was sent for the whole. */
  abort(): void;
  /** The same behind a whole answer, also inside of the library's run, which brings nothing more then. */
  answerAndAbort(head: AnswerHead, body: string): void;
}

export interface ListenOptions extends Omit<AcceptorOptions, 'listen' | 'adopt'> {
  readonly limits: ConnectionLimits;
  readonly onRequest: (wire: Wire) => void;
  readonly onEmpty: () => void;
}

export interface Listening {
  readonly accepting: Accepting;
  /** What clients may unexpectedly notice of this library; null: nothing. */
  readonly problem: string | null;
  /** Ends those that are there. */
  close(): void;
}

export interface HttpLibrary {
  readonly name: 'uws' | 'node';
  /** For people: what it is, with its version. */
  readonly title: string;
  /** Why a faster one does not serve; null: this is the fastest. */
  readonly standsInFor: string | null;
  /** Rejects when the address can't be had. */
  listen(options: ListenOptions): Promise<Listening>;
}

export interface Framing {
  /** Names in lower case; what came several times is the list that it is (RFC 9110 section 5.2). */
  readonly headers: ReadonlyMap<string, string>;
  readonly body:
    | { readonly kind: 'none' }
    | { readonly kind: 'sized'; readonly bytes: number }
    | { readonly kind: 'chunked' };
  /** What makes the request unfit to be served, or null. Its connection must be closed: nobody knows where it ends. */
  readonly problem: string | null;
}

/** Headers on which two readers could disagree if they came twice: framing, what the body is, routing and credentials. */
const SINGLE = new Set([
  'authorization',
  'content-encoding',
  'content-length',
  'content-type',
  'cookie',
  'host',
  'idempotency-key',
  'transfer-encoding',
  'x-api-key',
  'x-filename',
  'x-metadata',
]);

/** Those that nearly all requests have. */
const METHODS = new Set(['GET', 'POST']);

/** RFC 9110 section 5.6.2: by character, which takes less than an expression for names so short. */
const TOKEN_CHARACTERS = new Uint8Array(128);
for (const character of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
  TOKEN_CHARACTERS[character.charCodeAt(0)] = 1;
}

function isToken(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) if (TOKEN_CHARACTERS[text.charCodeAt(index)] !== 1) return false;
  return text !== '';
}

/** 15 digits stay exact in a double. */
const CONTENT_LENGTH = /^\d{1,15}$/;

const NONE = { kind: 'none' } as const;

export function readFraming(head: RequestHead): Framing {
  const headers = new Map<string, string>();
  let problem = METHODS.has(head.method) || isToken(head.method) ? null : 'Invalid method';
  // RFC 9112 section 3.2: other forms are for proxies, and for `OPTIONS *`.
  if (!head.path.startsWith('/')) problem ??= 'The target must be a path';
  for (let at = 0; at < head.headers.length; at += 2) {
    const name = head.headers[at] ?? '';
    const value = head.headers[at + 1] ?? '';
    if (!SINGLE.has(name) && !isToken(name)) problem ??= 'Invalid header name';
    const before = headers.get(name);
    if (before === undefined) headers.set(name, value);
    else if (SINGLE.has(name)) problem ??= `Repeated header: ${name}`;
    // The first line alone would be what a client claims where a proxy adds one of its own below, as with X-Forwarded-For.
    else headers.set(name, `${before}, ${value}`);
  }
  const framed = bodyOf(headers, head.version);
  return { headers, body: framed.body, problem: problem ?? framed.problem };
}

/**
 * Chunked is served strictly, and its connection closed afterwards: uWebSockets.js reads chunk sizes leniently, so what
 * follows a chunked body must never be taken for another request.
 */
function bodyOf(
  headers: ReadonlyMap<string, string>,
  version: RequestHead['version'],
): Pick<Framing, 'body' | 'problem'> {
  const length = headers.get('content-length');
  const coding = headers.get('transfer-encoding');
  if (version === '1.1' && !headers.has('host')) return { body: NONE, problem: 'Missing header: host' };
  if (coding !== undefined) {
    // RFC 9112 section 6.1: a proxy that speaks 1.0 doesn't know it, and may have passed it on.
    if (version === '1.0') return { body: NONE, problem: 'Transfer-Encoding in HTTP/1.0' };
    if (length !== undefined) return { body: NONE, problem: 'Content-Length beside Transfer-Encoding' };
    if (coding.toLowerCase() !== 'chunked') return { body: NONE, problem: 'Transfer-Encoding must be chunked' };
    return { body: { kind: 'chunked' }, problem: null };
  }
  if (length === undefined) return { body: NONE, problem: null };
  if (!CONTENT_LENGTH.test(length)) return { body: NONE, problem: 'Content-Length must be a number' };
  const bytes = Number(length);
  return { body: bytes === 0 ? NONE : { kind: 'sized', bytes }, problem: null };
}

/** What is taken over: a token that is safe in logs and headers. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The client's own, otherwise a new one. */
export function requestIdOf(headers: ReadonlyMap<string, string>): string {
  const claimed = headers.get('x-request-id');
  return claimed !== undefined && REQUEST_ID.test(claimed) ? claimed : randomId();
}

export interface Reply {
  readonly status: number;
  /** A list is sent as several headers of that name. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** In the place of these and of the content type: each name before its value, with that of the request. The usual headers go with them. */
  readonly list?: readonly string[];
  /** Not sent with 204 and 304, which have none (of a 304 it is what the 200 has). Pieces are sent one after the other, as the client takes them. */
  readonly body: string | Uint8Array | AsyncIterable<string>;
  /** Default: `application/json; charset=utf-8`. */
  readonly contentType?: string;
}

const NO_HEADERS: NonNullable<Reply['headers']> = {};

export function headOf(reply: Reply, requestId: string): AnswerHead {
  const { status, headers = NO_HEADERS, contentType } = reply;
  if (reply.list !== undefined) return { status, isUsual: true, headers: reply.list };
  const list = ['X-Request-Id', requestId];
  const hasBody = status !== 204 && status !== 304;
  const isUsual = hasBody && contentType === undefined && headers['Cache-Control'] === undefined;
  if (!isUsual) {
    list.push('X-Content-Type-Options', 'nosniff');
    if (headers['Cache-Control'] === undefined) list.push('Cache-Control', 'no-store');
    if (hasBody) list.push('Content-Type', contentType ?? 'application/json; charset=utf-8');
  }
  for (const [name, value] of Object.entries(headers)) {
    for (const each of typeof value === 'string' ? [value] : value) list.push(name, each);
  }
  return { status, isUsual, headers: list };
}

/** What nobody foresaw, with headers that its 500 has all the same. */
export class Surprise extends Error {
  readonly headers: Readonly<Record<string, string>>;

  constructor(cause: unknown, headers: Readonly<Record<string, string>>) {
    super('Unforeseen', { cause });
    this.name = 'Surprise';
    this.headers = headers;
  }
}

/** A status, and names before their values, as lines of a head; without the end of the last one. */
export function joined(texts: readonly string[]): string {
  return texts.reduce((all, text, index) => all + (index % 2 === 0 ? ': ' : '\r\n') + text);
}

/** An answer after which the connection ends, all but the version before it. */
export function wholeText({ status, isUsual, headers }: AnswerHead, body: string): string {
  const start = `${status} ${STATUS_CODES[status] ?? 'Unknown'}`;
  const length = ['Content-Length', `${Buffer.byteLength(body)}`, 'Connection', 'close'];
  return `${joined([start, ...(isUsual ? USUAL_HEADERS : []), ...headers, ...length])}\r\n\r\n${body}`;
}

/** The answer to an expected failure; `fields` and `headers` are what its row has beyond error and message. */
export function failureReply(
  failure: Failure,
  headers: Readonly<Record<string, string>> = {},
  fields: Readonly<Record<string, number>> = {},
): Reply & { readonly body: string } {
  const { status, error } = errorTable[failure.code];
  const message = messageOf(failure.code, failure.detail);
  const retry = failure.retryAfterSeconds === null ? {} : { 'Retry-After': String(failure.retryAfterSeconds) };
  const challenge = challengeOf(failure.code);
  // RFC 9110 section 12.5.3: which encodings it could have been.
  const accepted = failure.code === 'contentEncoded' ? { 'Accept-Encoding': 'identity' } : {};
  return {
    status,
    headers: { ...headers, ...retry, ...accepted, ...(challenge === null ? {} : { 'WWW-Authenticate': challenge }) },
    body: JSON.stringify(message === null ? { error } : { error, message, ...fields }),
  };
}

/** Spreadsheets take a text for UTF-8 only when it begins with this mark. */
const MARK = '\ufeff';

/** What spreadsheets read as the beginning of a formula; an apostrophe in front makes it text for them. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const QUOTED = /[",\r\n']|^\s|\s$/;

interface CsvTable<Row> {
  readonly columns: readonly string[];
  readonly cellsOf: (row: Row) => readonly (string | number | null)[];
  /** A page with fewer rows is the last one. */
  readonly pageRows: number;
  readonly nextPage: (after: string) => Promise<readonly Row[]>;
}

/** Page after page, as the client takes them. */
export async function* csvPieces<Row extends { readonly id: string }>(
  first: readonly Row[],
  { columns, cellsOf, pageRows, nextPage }: CsvTable<Row>,
): AsyncGenerator<string> {
  yield `${MARK}${columns.join(',')}\r\n`;
  for (let rows = first; rows.length > 0; ) {
    yield rows.map((row) => `${cellsOf(row).map(cell).join(',')}\r\n`).join('');
    const after = rows.length < pageRows ? null : (rows.at(-1)?.id ?? null);
    rows = after === null ? [] : await nextPage(after);
  }
}

export function csvReply(filename: string, body: AsyncIterable<string>): Reply {
  const headers = { 'Content-Disposition': `attachment; filename="${filename}"` };
  return { status: 200, headers, contentType: 'text/csv; charset=utf-8', body };
}

function cell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
