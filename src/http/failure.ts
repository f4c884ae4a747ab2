// From a row of the error table to an answer.
import { challengeOf, errorTable, type Failure, messageOf } from '../errors.js';
import type { Reply } from './reply.js';

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
