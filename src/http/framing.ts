// The headers of a request, looked at once and raw: what its body will be, and whether it contradicts itself (RFC 9112 section 6.3).

import { randomId } from '../ids.js';
import type { RequestHead } from './wire.js';

export interface Framing {
  /** Names in lower case; of repeated ones the first, but of X-Forwarded-For the list that they are. */
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
    if (!headers.has(name)) headers.set(name, value);
    // Some proxies add a line of their own below the client's: the first one alone would be what the client claims.
    else if (name === 'x-forwarded-for') headers.set(name, `${headers.get(name)}, ${value}`);
    else if (SINGLE.has(name)) problem ??= `Repeated header: ${name}`;
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
