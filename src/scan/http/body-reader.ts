// The readers of bodies: of a form, of a file as it is, or of a text that names a URL, as the content type says; and what clients say beside the content. A wrong form is refused
// before the rest arrives.

import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { encryptedPolicies, heuristicsPolicies, type ScanPolicy } from '../../engine/verdict.js';
import { Failure } from '../../errors.js';
import { baseName, percentDecoded } from '../../filename.js';
import type { Exchange } from '../../http/exchange.js';
import { parseJson, readQuery, utf8Of } from '../../http/json.js';
import {
  METADATA_BYTES,
  MULTIPART_ENVELOPE_BYTES,
  MULTIPART_FIELD_BYTES,
  MULTIPART_PARTS_MAX,
  URL_BODY_BYTES,
} from '../../limits.js';
import {
  assertNotEncoded,
  MalformedMultipart,
  MultipartParser,
  mediaTypeOf,
  parsePartHeaders,
  readBoundary,
} from './multipart-parser.js';

export interface BodyReader {
  /** As shown; null until it is known. */
  readonly filename: string | null;
  /** What was said until now; null: nothing. */
  readonly options: RequestOptions | null;
  /** What a body may have beside the content: a longer one is too large, whatever is in it. */
  readonly envelopeBytes: number;
  /** The bytes are the reader's only until it returns. What it throws is the end. */
  write(bytes: Buffer): void;
  /** The body is over. Null: it was a file; otherwise the text of the url. */
  end(): string | null;
}

/** But for tabs and line ends. Postgres has no text with NUL in it; nobody can read the others. */
const CONTROL = /[^\P{Cc}\t\n\r]/u;

/** As parameters and JSON fields, and of a form. */
export const optionFields = {
  metadata: z
    .string()
    .optional()
    .describe(
      `Your own text about the scan, at most ${METADATA_BYTES} bytes: it is kept with it, and means nothing to us.`,
    ),
  encrypted: z
    .enum(encryptedPolicies)
    .optional()
    .describe(
      '`reject`: content with members that need a password is a 422. `allow`: the verdict is about all the others, with the notice `encrypted`.',
    ),
  heuristics: z
    .enum(heuristicsPolicies)
    .optional()
    .describe(
      '`off`: what the engine merely suspects (names that begin with `Heuristics.`) is no infection, and a notice.',
    ),
};
type OptionName = keyof typeof optionFields;
export type SaidOptions = { readonly [Name in OptionName]?: string | undefined };

const NAMES: readonly OptionName[] = ['metadata', 'encrypted', 'heuristics'];

/** Null: it is another field of a form. */
export const optionNamed = (name: string): OptionName | null => NAMES.find((one) => one === name) ?? null;

/** Each once, whatever the way by which it comes. */
export class RequestOptions {
  metadata: string | null = null;
  /** Null, as the next one: as the service has it. */
  encrypted: ScanPolicy['encrypted'] | null = null;
  heuristics: ScanPolicy['heuristics'] | null = null;

  /** Throws Failure `badRequest`. */
  assertOnce(name: OptionName): void {
    if (this[name] !== null) throw new Failure('badRequest', `${name}: given twice`);
  }

  /** Throws Failure `badRequest`. */
  set(name: OptionName, text: string): void {
    this.assertOnce(name);
    if (name === 'metadata') this.metadata = metadataOf(text);
    else if (name === 'encrypted') this.encrypted = oneOf(name, encryptedPolicies, text);
    else this.heuristics = oneOf(name, heuristicsPolicies, text);
  }

  /** The same of bytes as they were sent. */
  setBytes(name: OptionName, bytes: Buffer): void {
    if (!isUtf8(bytes)) throw new Failure('badRequest', `${name}: must be UTF-8`);
    this.set(name, bytes.toString('utf8'));
  }

  /** What was said of the policy; empty: nothing. */
  get policyText(): string {
    return this.encrypted === null && this.heuristics === null ? '' : `${this.encrypted} ${this.heuristics}`;
  }

  addAll(said: SaidOptions): void {
    for (const name of NAMES) {
      const text = said[name];
      if (text !== undefined) this.set(name, text);
    }
  }
}

function metadataOf(text: string): string {
  if (Buffer.byteLength(text) > METADATA_BYTES) {
    throw new Failure('badRequest', `metadata: must be at most ${METADATA_BYTES} bytes long`);
  }
  if (CONTROL.test(text)) throw new Failure('badRequest', 'metadata: must not have control characters');
  return text;
}

function oneOf<Value extends string>(name: OptionName, values: readonly Value[], text: string): Value {
  const value = values.find((one) => one === text);
  if (value === undefined) throw new Failure('badRequest', `${name}: must be one of ${values.join(', ')}`);
  return value;
}

/** RFC 9110 section 8.3.1, without its parameters. */
const MEDIA_TYPE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+\/[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

export const ScanQuery = z.strictObject({
  filename: z.string().optional().describe('The name of a file that is sent as it is, in place of `X-Filename`.'),
  ...optionFields,
});
type ScanQuery = z.infer<typeof ScanQuery>;
const NO_QUERY: ScanQuery = {};

const UrlBody = z.strictObject({
  url: z
    .string()
    .max(MULTIPART_FIELD_BYTES)
    .optional()
    .describe('Public http or https URL without credentials; what it answers with is at most 10,485,760 bytes.'),
  // Said so that clients made from the document don't compile with both.
  file: z
    .null('must not be beside a URL: a file is sent as a form, or as it is')
    .optional()
    .describe('A file is sent as a form, or as it is.'),
  ...optionFields,
});
/** The same before it is read. */
type UrlFields = SaidOptions & { readonly url?: string | undefined };

/** As it should be sent. What it lacks has an answer of its own. */
export const UrlToScan = UrlBody.required({ url: true }).meta({ id: 'UrlToScan' });

/** What a route takes: files in forms alone, URLs as JSON alone, or both in any form. */
export type Taken = 'files' | 'urls' | 'all';

/** Throws a Failure, and MalformedMultipart. */
export function openReader(exchange: Exchange, target: FormTarget, takes: Taken): BodyReader {
  const { headers, body } = exchange;
  if (headers.has('content-encoding')) assertNotEncoded(headers);
  const query = exchange.query === '' || takes !== 'all' ? NO_QUERY : readQuery(exchange, ScanQuery);
  const contentType = headers.get('content-type');
  const type = mediaTypeOf(contentType ?? '');
  const metadata = headers.get('x-metadata');
  const options = metadata === undefined && query === NO_QUERY ? null : saidBeside(metadata, query);
  const boundary = takes === 'urls' ? null : readBoundary(contentType);
  // Libraries for large uploads send a file in pieces, each as a request of its own with its place in the file (RFC 9110 section 14.4).
  if (headers.has('content-range')) {
    const problem = 'the request has a Content-Range';
    throw boundary === null ? new Failure('badRequest', problem) : new MalformedMultipart(problem);
  }
  if (takes === 'urls') {
    if (type !== 'application/json') throw new Failure('jsonExpected');
    return new UrlReader(readObject, options, body);
  }
  if (boundary !== null) {
    if (query.filename !== undefined) throw new Failure('badRequest', 'filename: a form has it in its part');
    return new MultipartReader(boundary, target, options);
  }
  if (takes === 'files' || !MEDIA_TYPE.test(type)) throw new Failure('unsupportedMediaType');
  const read = TEXTS.get(type);
  if (read === undefined) return new RawReader(nameOf(headers.get('x-filename'), query.filename), target, options);
  if (query.filename !== undefined) throw new Failure('badRequest', 'filename: a URL has its own');
  return new UrlReader(read, options, body);
}

function saidBeside(metadataHeader: string | undefined, query: ScanQuery): RequestOptions {
  const options = new RequestOptions();
  if (query !== NO_QUERY) options.addAll(query);
  if (metadataHeader !== undefined) options.set('metadata', decodedHeader('X-Metadata', metadataHeader));
  return options;
}

/** Libraries read other bytes as Latin-1 or as UTF-8, and uWebSockets.js drops them at both ends. */
function decodedHeader(name: string, value: string): string {
  if (/[^\t\x20-\x7e]/.test(value)) throw new Failure('badRequest', `${name}: must be percent-encoded`);
  return percentDecoded(value);
}

function nameOf(header: string | undefined, parameter: string | undefined): string | null {
  if (header !== undefined && parameter !== undefined) throw new Failure('badRequest', 'filename: given twice');
  return baseName(parameter ?? decodedHeader('X-Filename', header ?? ''));
}

/** The content is the body. */
class RawReader implements BodyReader {
  readonly filename: string | null;
  readonly options: RequestOptions | null;
  readonly envelopeBytes: number = 0;
  readonly #target: FormTarget;

  /** Throws Failure `filenameMissing`. */
  constructor(filename: string | null, target: FormTarget, options: RequestOptions | null) {
    if (filename === null) throw new Failure('filenameMissing');
    this.filename = filename;
    this.options = options;
    this.#target = target;
  }

  write(bytes: Buffer): void {
    if (bytes.length > 0) this.#target.onFileBytes(bytes);
  }

  end(): null {
    return null;
  }
}

type ReadText = (body: Buffer) => UrlFields;

/** Programs name such a type unasked (`curl --data-binary`), with what is a file. */
const NAMES_A_URL = 'a body of this Content-Type names a URL, and a file needs another one';

class UrlReader implements BodyReader {
  readonly filename: null = null;
  readonly options: RequestOptions;
  /** The bound of these bodies is another one. */
  readonly envelopeBytes: number = Number.MAX_SAFE_INTEGER;
  readonly #read: ReadText;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  /** Throws Failure `bodyTooLarge`. */
  constructor(read: ReadText, options: RequestOptions | null, body: Exchange['body']) {
    if (body.kind === 'sized') assertShort(body.bytes);
    this.options = options ?? new RequestOptions();
    this.#read = read;
  }

  write(bytes: Buffer): void {
    this.#bytes += bytes.length;
    assertShort(this.#bytes);
    this.#chunks.push(Buffer.from(bytes));
  }

  end(): string {
    const { url, ...said } = this.#read(Buffer.concat(this.#chunks));
    this.options.addAll(said);
    if (url === undefined) throw new Failure('nothingToScan');
    return url;
  }
}

function assertShort(bytes: number): void {
  if (bytes > URL_BODY_BYTES) throw new Failure('bodyTooLarge', `${URL_BODY_BYTES / 1024} KB: ${NAMES_A_URL}`);
}

const readObject: ReadText = (body) => parseJson(UrlBody, utf8Of(body));

const readPairs: ReadText = (body) => {
  try {
    return pairsOf(utf8Of(body));
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'badRequest') throw error;
    throw new Failure('badRequest', `${NAMES_A_URL}: ${error.detail}`);
  }
};

function pairsOf(text: string): UrlFields {
  const body: Record<string, string> = {};
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = formDecoded(equals === -1 ? pair : pair.slice(0, equals));
    if (name !== 'url' && optionNamed(name) === null) throw new Failure('badRequest', `unknown: ${name}`);
    if (body[name] !== undefined) {
      throw name === 'url' ? new Failure('severalFiles') : new Failure('badRequest', `${name}: given twice`);
    }
    body[name] = equals === -1 ? '' : formDecoded(pair.slice(equals + 1));
  }
  return body;
}

function formDecoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new Failure('badRequest', 'The body is not percent-encoded UTF-8');
  }
}

const TEXTS: ReadonlyMap<string, ReadText> = new Map([
  ['application/json', readObject],
  ['application/x-www-form-urlencoded', readPairs],
]);

export function asFailure(error: unknown): unknown {
  return error instanceof MalformedMultipart ? new Failure('malformedMultipart', error.message) : error;
}

export interface FormTarget {
  /** Takes bytes of the file, which are the target's only until this returns. What it throws is the end of the body. */
  onFileBytes(bytes: Uint8Array): void;
}

const CR = 13;
const LF = 10;
const SPACE = 32;
const TAB = 9;
const NOTHING_SAID: Buffer[] = [];

export class MultipartReader extends MultipartParser {
  readonly #target: FormTarget;

  /** As shown; null until the head of its part is there. Also of a form that is refused then. */
  filename: string | null = null;
  readonly envelopeBytes: number = MULTIPART_ENVELOPE_BYTES;
  /** Null: nothing was said. */
  options: RequestOptions | null;
  /** Of its part. */
  #option: Buffer[] = NOTHING_SAID;
  #optionName: ReturnType<typeof optionNamed> = null;
  /** Of the part `url`. */
  #url: Buffer[] | null = null;
  #fileParts = 0;
  /** Of the part that is read. */
  #part: 'file' | 'url' | 'urlBesideFile' | 'option' | 'other' = 'other';
  #fieldBytes = 0;
  /** The name of a part that is a file input which was left empty, unless bytes follow. */
  #leftEmpty: string | null = null;

  /** `options`: what was said beside the form. */
  constructor(boundary: string, target: FormTarget, options: RequestOptions | null = null) {
    super(boundary, MULTIPART_PARTS_MAX);
    this.#target = target;
    this.options = options;
  }

  /**
   * The body is over. Null: it was a file; otherwise the text of the url. Throws MalformedMultipart unless the closing delimiter was
   * seen, Failure `nothingToScan` or `urlRejected`.
   */
  end(): string | null {
    this.assertEnd();
    if (this.filename !== null) return null;
    if (this.#url === null) throw new Failure('nothingToScan');
    const text = Buffer.concat(this.#url);
    // It is in another character set, or in none: with U+FFFD in the place of its bytes it would be another URL.
    if (!isUtf8(text)) throw new Failure('urlRejected', 'malformed URL');
    return text.toString('utf8');
  }

  protected onPartEnd(): void {
    if (this.#part === 'option' && this.#optionName !== null)
      this.options?.setBytes(this.#optionName, Buffer.concat(this.#option));
  }

  protected onPart(headers: string): void {
    const { name, filename } = parsePartHeaders(headers);
    this.#fieldBytes = 0;
    this.#part = 'other';
    // A part without a filename is a field, whatever its type; `file` without one is an upload that lost its name, unless it is empty.
    this.#leftEmpty = filename === '' || (filename === null && name === 'file') ? name : null;
    if (this.#leftEmpty === null && filename !== null) this.#beginFile(name, filename);
    else if (name === 'url' && filename === null) this.#beginUrl();
    else if (filename === null) this.#beginOption(optionNamed(name));
  }

  #beginFile(name: string, filename: string): void {
    this.#fileParts += 1;
    if (this.#fileParts > 1) throw new Failure('severalFiles');
    if (name !== 'file') return;
    this.filename = baseName(filename);
    // Forms send the url that was left empty, too.
    if (this.#url !== null && !this.#url.every(isBlank)) throw new Failure('fileAndUrl');
    if (this.filename === null) throw new Failure('filenameMissing');
    this.#part = 'file';
  }

  #beginUrl(): void {
    if (this.filename !== null) {
      this.#part = 'urlBesideFile';
      return;
    }
    if (this.#url !== null) throw new Failure('severalFiles');
    this.#url = [];
    this.#part = 'url';
  }

  #beginOption(name: ReturnType<typeof optionNamed>): void {
    if (name === null) return;
    this.options ??= new RequestOptions();
    this.options.assertOnce(name);
    this.#optionName = name;
    this.#option = [];
    this.#part = 'option';
  }

  protected onContent(bytes: Buffer): void {
    if (this.#leftEmpty !== null) {
      this.#beginFile(this.#leftEmpty, '');
      this.#leftEmpty = null;
    }
    if (this.#part === 'file') {
      this.#target.onFileBytes(bytes);
      return;
    }
    this.#fieldBytes += bytes.length;
    if (this.#fieldBytes > MULTIPART_FIELD_BYTES) {
      throw new MalformedMultipart(`a field over ${MULTIPART_FIELD_BYTES} bytes`);
    }
    if (this.#part === 'url') this.#url?.push(Buffer.from(bytes));
    else if (this.#part === 'option') this.#option.push(Buffer.from(bytes));
    else if (this.#part === 'urlBesideFile' && !isBlank(bytes)) throw new Failure('fileAndUrl');
  }
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === SPACE || byte === TAB || byte === CR || byte === LF);
}
