// Which reader a body is for: a form, a file as it is, or a text that names a URL. The content type says it.
import { z } from 'zod';
import { Failure } from '../../errors.js';
import { baseName, percentDecoded } from '../../filename.js';
import type { Exchange } from '../../http/exchange.js';
import { parseJson, readQuery, utf8Of } from '../../http/json.js';
import { MULTIPART_FIELD_BYTES, URL_BODY_BYTES } from '../../limits.js';
import { assertNotEncoded, MalformedMultipart, readBoundary } from './multipart-parser.js';
import {
  type FormTarget,
  MultipartReader,
  optionFields,
  optionNamed,
  RequestOptions,
  type SaidOptions,
} from './multipart-reader.js';

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
  const { headers } = exchange;
  if (headers.has('content-encoding')) assertNotEncoded(headers);
  const query = exchange.query === '' || takes !== 'all' ? NO_QUERY : readQuery(exchange, ScanQuery);
  if (takes === 'urls') {
    if (mediaTypeOf(headers) !== 'application/json') throw new Failure('jsonExpected');
    return new UrlReader(readObject, new RequestOptions());
  }
  const boundary = readBoundary(headers.get('content-type'));
  // Libraries for large uploads send a file in pieces, each as a request of its own with its place in the file (RFC 9110 section 14.4).
  if (headers.has('content-range')) {
    const problem = 'the request has a Content-Range';
    throw boundary === null ? new Failure('badRequest', problem) : new MalformedMultipart(problem);
  }
  const metadata = headers.get('x-metadata');
  const options = metadata === undefined && query === NO_QUERY ? null : saidBeside(metadata, query);
  if (boundary !== null) {
    if (query.filename !== undefined) throw new Failure('badRequest', 'filename: a form has it in its part');
    return new MultipartReader(boundary, target, options);
  }
  const type = mediaTypeOf(headers);
  if (takes === 'files' || !MEDIA_TYPE.test(type)) throw new Failure('unsupportedMediaType');
  const read = TEXTS.get(type);
  if (read === undefined) return new RawReader(nameOf(headers.get('x-filename'), query.filename), target, options);
  if (query.filename !== undefined) throw new Failure('badRequest', 'filename: a URL has its own');
  return new UrlReader(read, options ?? new RequestOptions());
}

function mediaTypeOf(headers: Exchange['headers']): string {
  return headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? '';
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

type ReadText = (text: string) => UrlFields;

class UrlReader implements BodyReader {
  readonly filename: null = null;
  readonly options: RequestOptions;
  /** The bound of these bodies is another one. */
  readonly envelopeBytes: number = Number.MAX_SAFE_INTEGER;
  readonly #read: ReadText;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(read: ReadText, options: RequestOptions) {
    this.options = options;
    this.#read = read;
  }

  write(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#bytes > URL_BODY_BYTES) throw new Failure('bodyTooLarge', `${URL_BODY_BYTES / 1024} KB`);
    this.#chunks.push(Buffer.from(bytes));
  }

  end(): string {
    const { url, ...said } = this.#read(utf8Of(Buffer.concat(this.#chunks)));
    this.options.addAll(said);
    if (url === undefined) throw new Failure('nothingToScan');
    return url;
  }
}

const readObject = (text: string): z.infer<typeof UrlBody> => parseJson(UrlBody, text);

function readPairs(text: string): UrlFields {
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
