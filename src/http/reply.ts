// An answer as a route gives it, that of a failure and lines of CSV among them, and its head: what every answer says, and what this one says beside it.
import { challengeOf, errorTable, type Failure, messageOf } from '../errors.js';
import type { AnswerHead } from './wire.js';

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

export function csvHead(names: readonly string[]): string {
  return `${MARK}${names.join(',')}\r\n`;
}

export function csvLine(values: readonly (string | number | null)[]): string {
  return `${values.map(cell).join(',')}\r\n`;
}

function cell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
