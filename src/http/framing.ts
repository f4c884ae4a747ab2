// The headers of a request, looked at once and raw: what its body will be, and whether it contradicts itself (RFC 9112 section 6.3).

import { randomId } from '../ids.js';
import type { RequestHead } from './wire.js';

/** By names in lower case; of repeated ones the first, but of X-Forwarded-For the list that they are. */
export interface RequestHeaders {
  get(name: string): string | undefined;
  has(name: string): boolean;
}

export interface Framing {
  readonly headers: RequestHeaders;
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

const FORWARDED_FOR = 'x-forwarded-for';

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

/** Each name before its value. They are few, and asked for a dozen times: a Map would take longer to be made. */
class HeaderList implements RequestHeaders {
  readonly #texts: string[];

  constructor(texts: string[]) {
    this.#texts = texts;
  }

  get(name: string): string | undefined {
    const at = this.placeOf(name);
    return at < 0 ? undefined : this.#texts[at + 1];
  }

  has(name: string): boolean {
    return this.placeOf(name) >= 0;
  }

  /** Of the first one; -1: there is none. */
  placeOf(name: string): number {
    const texts = this.#texts;
    for (let at = 0; at < texts.length; at += 2) if (texts[at] === name) return at;
    return -1;
  }

  join(at: number, value: string): void {
    this.#texts[at + 1] += `, ${value}`;
  }
}

export function readFraming(head: RequestHead): Framing {
  const headers = new HeaderList(head.headers);
  let problem = METHODS.has(head.method) || isToken(head.method) ? null : 'Invalid method';
  // RFC 9112 section 3.2: other forms are for proxies, and for `OPTIONS *`.
  if (!head.path.startsWith('/')) problem ??= 'The target must be a path';
  for (let at = 0; at < head.headers.length; at += 2) {
    const name = head.headers[at] ?? '';
    const isSingle = SINGLE.has(name);
    if (!isSingle && !isToken(name)) problem ??= 'Invalid header name';
    if (!(isSingle || name === FORWARDED_FOR)) continue;
    const first = headers.placeOf(name);
    if (first === at) continue;
    // Some proxies add a line of their own below the client's: the first one alone would be what the client claims.
    if (isSingle) problem ??= `Repeated header: ${name}`;
    else headers.join(first, head.headers[at + 1] ?? '');
  }
  const framed = bodyOf(headers, head.version);
  return { headers, body: framed.body, problem: problem ?? framed.problem };
}

/**
 * Chunked is served strictly, and its connection closed afterwards: uWebSockets.js reads chunk sizes leniently, so what
 * follows a chunked body must never be taken for another request.
 */
function bodyOf(headers: RequestHeaders, version: RequestHead['version']): Pick<Framing, 'body' | 'problem'> {
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
export function requestIdOf(headers: RequestHeaders): string {
  const claimed = headers.get('x-request-id');
  return claimed !== undefined && REQUEST_ID.test(claimed) ? claimed : randomId();
}
