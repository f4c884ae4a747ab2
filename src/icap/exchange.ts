// One request of a connection and what is known of it until its answer: what its HTTP headers say, which answers its client can take, and what is sent back of it.
import { Failure } from '../errors.js';
import { baseName, nameFromUrl } from '../filename.js';
import { ICAP_PIECE_BYTES } from '../limits.js';
import { MalformedMultipart, parseDisposition } from '../scan/http/multipart-parser.js';
import type { Block } from '../scan/memory/arena.js';
import { parseUrl } from '../wire-text.js';
import { type IcapOutcome, NO_BODY } from './answers.js';
import { type IcapScan, openForm, type UploadForm } from './icap-scan.js';
import type { IcapHead } from './request.js';

export class IcapExchange {
  readonly head: IcapHead;
  readonly requestId: string;
  /** Null: nothing of the body has come. */
  scan: IcapScan | null = null;
  /** All that the client sends of the body has come. */
  isOver: boolean;
  /** The client was asked for what follows the preview. */
  isContinued = false;
  /** What it is answered with at the end of its preview, or of its body; null: nothing yet. */
  outcome: IcapOutcome | null = null;
  /** Of the body, by the HTTP headers; null: they don't say. */
  readonly declaredBytes: number | null;
  readonly filename: string;
  readonly #hidden: string | null;

  constructor(head: IcapHead, requestId: string) {
    this.head = head;
    this.requestId = requestId;
    this.isOver = head.body === null;
    const { method, requestHeader, responseHeader } = head;
    const header = method === 'REQMOD' ? requestHeader : responseHeader;
    // The length of what has no body, as in an answer to HEAD, says nothing.
    this.declaredBytes = contentLengthOf(header) || null;
    this.#hidden = hiddenBy(method, header);
    this.filename = filenameOf(requestHeader, responseHeader);
  }

  /** A 204 stands for all of it. Otherwise it is sent back. */
  get takes204(): boolean {
    return this.head.allows204 || (this.head.previewBytes !== null && !this.isContinued && this.isOver);
  }

  get isInPreview(): boolean {
    return this.head.previewBytes !== null && !this.isContinued && !this.isOver;
  }

  /** Of an upload whose files lie in a form; null: it is none. */
  openForm(): UploadForm | null {
    const { method, requestHeader } = this.head;
    if (method !== 'REQMOD') return null;
    return openForm({ types: valuesOf(requestHeader, 'content-type'), isEncoded: isEncoded(requestHeader) });
  }

  /** Nextcloud declares one byte for any content: a number that the first chunk is over says nothing. */
  declaredFor(firstChunkBytes: number): number | null {
    return this.declaredBytes !== null && firstChunkBytes > this.declaredBytes ? null : this.declaredBytes;
  }

  /** What isn't there as a whole can't be sent back: without a 204 it is blocked. */
  possible(outcome: IcapOutcome): IcapOutcome {
    const isWhole = this.isOver && (this.scan === null || (this.scan.isWhole && this.scan.body !== null));
    if (outcome.kind !== 'pass' || this.takes204 || isWhole) return outcome;
    return {
      kind: 'incomplete',
      reason: outcome.notice ?? 'The body is not there as a whole',
      filename: this.filename,
    };
  }

  /** Why its body is not looked at; null: it is. */
  refusal(limitBytes: number): Failure | null {
    const { declaredBytes } = this;
    if (this.head.method === 'OPTIONS') return null;
    if (declaredBytes !== null && declaredBytes > limitBytes) return new Failure('fileTooLarge');
    return this.#hidden === null ? null : new Failure('scanIncomplete', this.#hidden);
  }

  /** The Encapsulated header and the HTTP headers of what is sent back unchanged. */
  unchanged(): { readonly encapsulated: string; readonly header: Buffer } {
    const { method, requestHeader, responseHeader, body } = this.head;
    const [name, header] = method === 'REQMOD' ? ['req-hdr', requestHeader] : ['res-hdr', responseHeader];
    if (header === null) return { encapsulated: body === null ? NO_BODY : `${body}=0`, header: NOTHING };
    return { encapsulated: `${name}=0, ${body ?? 'null-body'}=${header.length}`, header };
  }
}

/** Of a name that anybody may have chosen. */
const ENCODING_CHARACTERS = 32;
const NOTHING = Buffer.alloc(0);
const END = Buffer.from('0\r\n\r\n');

/** A body in chunks, copied piece by piece out of a memory that is lent. Null: it has no bytes. */
export function* chunksOf(content: { readonly block: Block; readonly sizeBytes: number } | null): Generator<Buffer> {
  const { block, sizeBytes } = content ?? { block: NOTHING, sizeBytes: 0 };
  for (let at = 0; at < sizeBytes; at += ICAP_PIECE_BYTES) {
    yield chunkOf(block.subarray(at, Math.min(sizeBytes, at + ICAP_PIECE_BYTES)));
  }
  yield END;
}

/** A copy of its own. */
export function chunkOf(bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, CRLF]);
}

const CRLF = Buffer.from('\r\n');

/** The values of all lines of the name, which is in lower case. */
function valuesOf(block: Buffer | null, name: string): string[] {
  const values: string[] = [];
  for (const line of linesOf(block)) {
    const colon = line.indexOf(':');
    if (line.slice(0, colon).trimEnd().toLowerCase() === name) values.push(line.slice(colon + 1).trim());
  }
  return values;
}

/** As the most lenient reader has them: what one of them takes for a header says how the body is to be looked at. */
function linesOf(block: Buffer | null): string[] {
  return block === null ? [] : block.toString('latin1').replace(FOLD, ' ').split(LINE_END);
}

const LINE_END = /\r\n?|\n/;
const FOLD = /(?:\r\n?|\n)[ \t]+/g;

const DIGITS = /^\d{1,15}$/;

/** Null: it isn't said, or more than one thing is. */
export function contentLengthOf(block: Buffer | null): number | null {
  const [first, ...others] = valuesOf(block, 'content-length');
  if (first === undefined || !DIGITS.test(first) || others.some((each) => each !== first)) return null;
  return Number(first);
}

/** Its bytes are not those that the type speaks of. */
const isEncoded = (block: Buffer | null): boolean => encodingsOf(block).some((each) => each !== 'identity');

/** What the engine unpacks by itself. */
const READABLE = new Set(['identity', 'gzip', 'x-gzip']);

/** Why nobody can look at the whole content; null: everybody can. */
export function hiddenBy(method: IcapHead['method'], block: Buffer | null): string | null {
  const encoding = encodingsOf(block).find((each) => !READABLE.has(each));
  if (encoding !== undefined) return `Content-Encoding ${encoding.slice(0, ENCODING_CHARACTERS)}`;
  return isPart(method, block) ? 'a part of a content (Content-Range)' : null;
}

/** Those of the transfer as well: what is left of them is the body's. */
function encodingsOf(block: Buffer | null): string[] {
  const values = [...valuesOf(block, 'content-encoding'), ...valuesOf(block, 'transfer-encoding')];
  const encodings = values.flatMap((value) => value.toLowerCase().split(','));
  return encodings.map((each) => each.trim()).filter((each) => each !== '' && each !== 'chunked');
}

/** RFC 9110, section 14: of a response its status says it, of a request its header. One that has all bytes is no part. */
function isPart(method: IcapHead['method'], block: Buffer | null): boolean {
  const ranges = valuesOf(block, 'content-range');
  const saysSo = method === 'REQMOD' ? ranges.length > 0 : PARTIAL.test(linesOf(block)[0] ?? '');
  return saysSo && !(ranges.length === 1 && isWhole(ranges[0] ?? ''));
}

const PARTIAL = /^\S+\s+206\b/;

function isWhole(range: string): boolean {
  const [, last, total] = /^bytes 0-(\d{1,15})\/(\d{1,15})$/i.exec(range) ?? [];
  return last !== undefined && Number(last) + 1 === Number(total);
}

/** By the response's own name, or by the address that was asked for; empty where neither says one. */
export function filenameOf(request: Buffer | null, response: Buffer | null): string {
  const [disposition = ''] = valuesOf(response, 'content-disposition');
  return baseName(sentName(Buffer.from(disposition, 'latin1').toString('utf8')) ?? '') ?? nameOfTarget(request);
}

const UNQUOTED = /(?:^|;)[ \t]*filename=([^;]*)/i;

/** A name with blanks in it is often sent without quotes, which no header may have. */
function sentName(disposition: string): string | null {
  try {
    return parseDisposition(disposition).filename;
  } catch (error) {
    if (!(error instanceof MalformedMultipart)) throw error;
    return UNQUOTED.exec(disposition)?.[1]?.trim().replace(/^"|"$/g, '') ?? null;
  }
}

function nameOfTarget(request: Buffer | null): string {
  const [line = ''] = linesOf(request);
  const [, target = ''] = line.split(' ', 2);
  const [host = 'localhost'] = valuesOf(request, 'host');
  const address = target.startsWith('/') ? `http://${host}${target}` : target;
  const url = parseUrl(address);
  return url === null ? '' : nameFromUrl(url).filename;
}
