// A strict streaming parser of multipart/form-data (RFC 7578, RFC 2046): no byte of a part is lost in silence, and no body is read two ways. It is pure, and takes
// any split of the bytes. What headers must say is checked as strictly: those of the request, its boundary among them, and the block of one part;
// how clients write a filename is not (RFC 5987, RFC 8187).
import { Failure } from '../../errors.js';
import { MULTIPART_BOUNDARY_MAX, MULTIPART_MARGIN_BYTES, MULTIPART_PART_HEADER_BYTES } from '../../limits.js';

type FormState = 'start' | 'preamble' | 'delimiter' | 'headers' | 'contentStart' | 'content' | 'epilogue';

const CR = 13;
const LF = 10;
const DASH = 45;
const SPACE = 32;
const TAB = 9;
const CRLF = Buffer.from('\r\n');
const HEADERS_END = Buffer.from('\r\n\r\n');
/** What may stand between a delimiter and its CRLF (RFC 2046 transport-padding), in bytes. */
const PADDING_MAX = 128;
/** In the place of an offset: it needs more bytes to decide. */
const UNDECIDED = -1;

/**
 * The parser of one body. A delimiter is CRLF, two dashes and the boundary, followed by optional blanks and CRLF, or by two
 * dashes when it is the closing one. Anything else behind these bytes is refused: readers differ about it, and a parser
 * that takes it for the end hands a cut file to the scan.
 */
export abstract class MultipartParser {
  readonly #delimiter: Buffer;
  readonly #partsMax: number;
  #state: FormState = 'start';
  /** Bytes seen but not decided about: a copy, since the caller's memory is not ours later. */
  #held: Buffer | null = null;
  /** Of the body, so far. */
  #totalBytes = 0;
  #parts = 0;
  /** Before the first part and behind the last one. */
  #marginBytes = 0;

  constructor(boundary: string, partsMax: number) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
    this.#partsMax = partsMax;
  }

  /**
   * What these throw is the end. `headers`: its block without the last CRLF CRLF, lossy on purpose: bytes that are no UTF-8 become U+FFFD, in a name that is only
   * shown. `offset`: in the body, of its content.
   */
  protected abstract onPart(headers: string, offset: number): void;
  /** They are the target's only until this returns. */
  protected abstract onContent(bytes: Buffer): void;
  protected abstract onPartEnd(): void;

  /** Takes the next bytes of the body. Throws MalformedMultipart, a Failure, and what the target throws; after that the reader is of no use. */
  write(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#totalBytes += bytes.length;
    const input = this.#held === null ? bytes : this.#joined(this.#held, bytes);
    let at = 0;
    while (at < input.length) {
      let next: number;
      switch (this.#state) {
        case 'start':
          next = this.#begin(input);
          break;
        case 'delimiter':
          next = this.#readDelimiterEnd(input, at);
          break;
        case 'headers':
          next = this.#readHeaders(input, at);
          break;
        case 'contentStart':
          next = this.#beginContent(input, at);
          break;
        case 'epilogue':
          next = this.#readEpilogue(input, at);
          break;
        default:
          next = this.#search(input, at);
      }
      if (next === UNDECIDED) {
        this.#held = Buffer.from(input.subarray(at));
        return;
      }
      at = next;
    }
  }

  /** The body is over. Throws MalformedMultipart unless the closing delimiter was seen. */
  protected assertEnd(): void {
    if (this.#state !== 'epilogue') throw new MalformedMultipart('unexpected end of the body');
  }

  /** The bytes that were held, with the fresh ones behind them. */
  #joined(held: Buffer, fresh: Buffer): Buffer {
    this.#held = null;
    return this.#state === 'preamble' || this.#state === 'content'
      ? this.#seam(held, fresh)
      : Buffer.concat([held, fresh]);
  }

  /** The first delimiter needs no CRLF before it, so the body begins as if one had come. */
  #begin(input: Buffer): number {
    const { length } = this.#delimiter;
    const dashBoundary = length - CRLF.length;
    if (input.length < dashBoundary) return UNDECIDED;
    if (input.compare(this.#delimiter, CRLF.length, length, 0, dashBoundary) === 0) {
      this.#state = 'delimiter';
      return dashBoundary;
    }
    this.#state = 'preamble';
    this.#addMargin(CRLF.length);
    return 0;
  }

  /**
   * Looks for a delimiter that began in the held bytes. It copies only as many fresh bytes as the decision takes: content
   * is megabytes, and goes on from where it arrived.
   */
  #seam(held: Buffer, fresh: Buffer): Buffer {
    const { length } = this.#delimiter;
    const seam = Buffer.concat([held, fresh.subarray(0, length)]);
    const at = seam.indexOf(this.#delimiter);
    if (at !== -1 && at < held.length) {
      this.#take(seam, 0, at);
      this.#state = 'delimiter';
      return fresh.subarray(at + length - held.length);
    }
    if (fresh.length < length) return seam;
    this.#take(held, 0, held.length);
    return fresh;
  }

  /** Content begins. A boundary right behind the empty line is refused: some readers take that line's CRLF for the delimiter's and see an empty part. */
  #beginContent(input: Buffer, at: number): number {
    const dashBoundary = this.#delimiter.length - CRLF.length;
    const length = Math.min(input.length - at, dashBoundary);
    if (input.compare(this.#delimiter, CRLF.length, CRLF.length + length, at, at + length) === 0) {
      if (length < dashBoundary) return UNDECIDED;
      throw new MalformedMultipart('boundary where content begins');
    }
    this.#state = 'content';
    return this.#search(input, at);
  }

  /** Behind the last part. */
  #readEpilogue(input: Buffer, at: number): number {
    for (let index = at; index < input.length; index += 1) {
      const byte = input[index];
      // RFC 2046 tells readers to ignore text here. A reader that doesn't would see parts that we never scanned.
      if (byte !== CR && byte !== LF && byte !== SPACE && byte !== TAB) {
        throw new MalformedMultipart('text after the closing boundary');
      }
    }
    this.#addMargin(input.length - at);
    return input.length;
  }

  /** Consumes what it can from there on, and returns where it has come to, or that it needs more bytes to decide. */
  #search(input: Buffer, at: number): number {
    const delimiter = this.#delimiter;
    const found = input.indexOf(delimiter, at);
    if (found !== -1) {
      this.#take(input, at, found);
      this.#state = 'delimiter';
      return found + delimiter.length;
    }
    const end = undecidedFrom(input, at, delimiter);
    if (end === at) return UNDECIDED;
    this.#take(input, at, end);
    return end;
  }

  #readDelimiterEnd(input: Buffer, at: number): number {
    if (input[at] === DASH) {
      if (input.length < at + 2) return UNDECIDED;
      if (input[at + 1] !== DASH) throw new MalformedMultipart('boundary followed by other text');
      if (this.#parts > 0) this.onPartEnd();
      this.#state = 'epilogue';
      return at + 2;
    }
    let index = at;
    while (input[index] === SPACE || input[index] === TAB) index += 1;
    if (index - at > PADDING_MAX) throw new MalformedMultipart('too many blanks after a boundary');
    if (input.length < index + 2 && (index === input.length || input[index] === CR)) return UNDECIDED;
    if (input[index] !== CR || input[index + 1] !== LF) throw new MalformedMultipart('boundary followed by other text');
    if (this.#parts > 0) this.onPartEnd();
    this.#parts += 1;
    if (this.#parts > this.#partsMax) throw new MalformedMultipart(`more than ${this.#partsMax} parts`);
    this.#state = 'headers';
    return index + 2;
  }

  #readHeaders(input: Buffer, at: number): number {
    if (input[at] === CR && input[at + 1] === LF) throw new MalformedMultipart('a part has no headers');
    const end = input.indexOf(HEADERS_END, at);
    // Three bytes of the end may be there already: the bound must not depend on where the body was cut.
    const headerBytes = (end === -1 ? input.length - HEADERS_END.length + 1 : end) - at;
    if (headerBytes > MULTIPART_PART_HEADER_BYTES) {
      throw new MalformedMultipart(`part headers over ${MULTIPART_PART_HEADER_BYTES} bytes`);
    }
    if (end === -1) return UNDECIDED;
    this.#state = 'contentStart';
    const contentAt = end + HEADERS_END.length;
    this.onPart(input.toString('utf8', at, end), this.#totalBytes - (input.length - contentAt));
    return contentAt;
  }

  /** Bytes that belong to no delimiter: of a part, or before the first one. */
  #take(input: Buffer, from: number, to: number): void {
    if (from === to) return;
    if (this.#state === 'content') this.onContent(input.subarray(from, to));
    else this.#addMargin(to - from);
  }

  #addMargin(bytes: number): void {
    this.#marginBytes += bytes;
    if (this.#marginBytes > MULTIPART_MARGIN_BYTES) {
      throw new MalformedMultipart(`over ${MULTIPART_MARGIN_BYTES} bytes outside of the parts`);
    }
  }
}

/** Where the longest end of the input begins that is a beginning of the delimiter. */
function undecidedFrom(input: Buffer, at: number, delimiter: Buffer): number {
  let from = input.indexOf(CR, Math.max(at, input.length - delimiter.length + 1));
  while (from !== -1) {
    if (input.compare(delimiter, 0, input.length - from, from) === 0) return from;
    from = input.indexOf(CR, from + 1);
  }
  return input.length;
}

export interface Part {
  readonly name: string;
  /** As sent, path and all; null when the part has none. */
  readonly filename: string | null;
}

interface Disposition {
  /** In lower case. */
  readonly type: string;
  /** Null when it has none. */
  readonly name: string | null;
  readonly filename: string | null;
}

/**
 * A line with its end. Line ends of their own in it would be a second header to some readers. Other control characters only spoil a
 * name (filename.ts). Each character of a line has one place in it, so that a line that is none costs no more than one that is.
 */
const LINE = /([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\r\n]*)(?:\r\n(?!$)|$)/y;
const BLANKS = /^[ \t]+/;
/**
 * `; name=token` or `; name="quoted"`, a backslash escaping only quote and backslash: Windows paths come unescaped. Nor does it escape a quote behind which
 * there is no other: browsers and curl send a name that ends in a backslash so.
 */
const PARAMETER =
  /[ \t]*;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"|"([^"]*\\)"(?=[ \t]*(?:;|$))|([^\s";]*))/y;

/** What clients send as a rule: nothing in it stands for anything else. */
const PLAIN =
  /^Content-Disposition: form-data; name="([^"\\\r\n]*)"(?:; filename="([^"\\%\r\n]*)")?(?:\r\nContent-Type: [\w.+-]+\/[\w.+-]+)?$/;
const NONE: readonly undefined[] = [];

/** Reads the block of a part of a form, without its last CRLF CRLF. Throws MalformedMultipart. */
export function parsePartHeaders(text: string): Part {
  const [, plainName, plainFilename] = PLAIN.exec(text) ?? NONE;
  if (plainName !== undefined) return { name: plainName, filename: plainFilename ?? null };
  const disposition = dispositionIn(text);
  if (disposition === null) throw new MalformedMultipart('a part has no Content-Disposition header');
  const { type, name, filename } = disposition;
  if (type !== 'form-data') throw new MalformedMultipart('a part is not form-data');
  if (name === null) throw new MalformedMultipart('a part has no name');
  return { name, filename };
}

/** The same of a multipart body that is no form: each part is a file, which may have no name. */
export const parseFileHeaders = (text: string): Part => ({ name: '', filename: dispositionIn(text)?.filename ?? '' });

function dispositionIn(text: string): Disposition | null {
  let disposition: string | null = null;
  let end = 0;
  do {
    LINE.lastIndex = end;
    const [line, sentName, sentValue] = LINE.exec(text) ?? [];
    if (line === undefined || sentName === undefined || sentValue === undefined) {
      throw new MalformedMultipart('a part has an invalid header line');
    }
    const value = sentValue.replace(BLANKS, '');
    end += line.length;
    const name = sentName.toLowerCase();
    assertAsItIs(name, value.trimEnd());
    if (name === 'content-disposition') {
      if (disposition !== null) throw new MalformedMultipart('a part has two Content-Disposition headers');
      disposition = value;
    }
  } while (end < text.length);
  return disposition === null ? null : parseDisposition(disposition);
}

const TYPE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?=[;\s]|$)/;

/** RFC 2045 section 6.1: what leaves the bytes as they are. Others are for mail (RFC 7578 section 4.7), and curl's `encoder=` sends them. */
const PLAIN_ENCODINGS: ReadonlySet<string> = new Set(['7bit', '8bit', 'binary']);
/** RFC 7578 section 4.3 has ended the way of RFC 2388 to send several files as one part; curl's `-F 'file=(;type=...'` still has it. */
const NESTED = /^multipart\/.*;[ \t]*boundary[ \t]*=/is;

/** Refuses a part whose bytes are not those of the client's file: the verdict would be about something else. */
function assertAsItIs(name: string, value: string): void {
  switch (name) {
    case 'content-transfer-encoding':
      if (PLAIN_ENCODINGS.has(value.toLowerCase())) return;
      throw new MalformedMultipart('the Content-Transfer-Encoding of a part is not 7bit, 8bit or binary');
    case 'content-encoding':
      throw new MalformedMultipart('a part has a Content-Encoding');
    case 'content-range':
      throw new MalformedMultipart('a part has a Content-Range');
    case 'content-type':
      if (NESTED.test(value)) throw new MalformedMultipart('a part is a multipart body of its own');
  }
}

/** The value of a Content-Disposition header. Throws MalformedMultipart. */
export function parseDisposition(value: string): Disposition {
  const type = TYPE.exec(value)?.[0];
  if (type === undefined) throw new MalformedMultipart('a part is not form-data');
  const parameters = new Map<string, string>();
  const text = value.trimEnd();
  PARAMETER.lastIndex = type.length;
  let end = type.length;
  while (end < text.length) {
    const match = PARAMETER.exec(text);
    const name = match?.[1]?.toLowerCase();
    if (match === null || name === undefined) {
      if (/^[ \t]*;[ \t]*$/.test(text.slice(end))) break;
      throw new MalformedMultipart('a part has an invalid Content-Disposition');
    }
    if (parameters.has(name)) throw new MalformedMultipart(`a part has two ${name} parameters`);
    const [, , quoted, raw, token = ''] = match;
    parameters.set(name, quoted === undefined ? (raw ?? token) : unescaped(quoted));
    end = PARAMETER.lastIndex;
  }
  const filename = extended(parameters.get('filename*')) ?? plain(parameters.get('filename'));
  return { type: type.toLowerCase(), name: parameters.get('name') ?? null, filename };
}

const unescaped = (quoted: string): string => (quoted.includes('\\') ? quoted.replace(/\\(["\\])/g, '$1') : quoted);

/** Browsers send quote, CR and LF of a filename percent-encoded, and nothing else (HTML standard, multipart form data). */
function plain(filename: string | undefined): string | null {
  if (filename === undefined) return null;
  if (!filename.includes('%')) return filename;
  return filename.replace(/%22/g, '"').replace(/%0D/gi, '\r').replace(/%0A/gi, '\n');
}

/** RFC 8187: `UTF-8'en'na%C3%AFve.txt`. Null when it is in a character set that nobody has to know. */
function extended(value: string | undefined): string | null {
  if (value === undefined) return null;
  const [, charset, encoded] = /^([^']*)'[^']*'(.*)$/.exec(value) ?? [];
  if (charset === undefined || encoded === undefined) return null;
  const encoding = /^utf-8$/i.test(charset) ? 'utf8' : /^iso-8859-1$/i.test(charset) ? 'latin1' : null;
  if (encoding === null) return null;
  // Characters that a client should have encoded and didn't stay as they are.
  return encoded.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString(encoding),
  );
}

/** Throws Failure `contentEncoded`: what is encoded is not what a verdict would be about. */
export function assertNotEncoded(headers: ReadonlyMap<string, string>): void {
  const encoding = headers.get('content-encoding')?.toLowerCase() ?? '';
  // RFC 9110 section 8.4.1: `identity` is the word for none, and changes nothing.
  if (encoding !== '' && encoding !== 'identity') throw new Failure('contentEncoded');
}

/**
 * The boundary of a `multipart/form-data` content type; null: another type, or none at all.
 * Throws MalformedMultipart when the boundary is missing, repeated, too long, or has other characters than visible ASCII and blanks.
 */
export function readBoundary(contentType: string | undefined): string | null {
  if (contentType === undefined) return null;
  if (PLAIN_TYPE.test(contentType)) return contentType.slice(PLAIN_TYPE_START.length);
  return mediaTypeOf(contentType) === 'multipart/form-data' ? boundaryOf(contentType) : null;
}

/** Without its parameters, in lower case. */
export function mediaTypeOf(contentType: string): string {
  return contentType.slice(0, typeEnd(contentType)).trim().toLowerCase();
}

function typeEnd(contentType: string): number {
  const semicolon = contentType.indexOf(';');
  return semicolon === -1 ? contentType.length : semicolon;
}

/** Of any multipart type. Throws as `readBoundary`. */
export function boundaryOf(contentType: string): string {
  const boundary = readParameter(contentType, typeEnd(contentType));
  if (boundary === null) throw new MalformedMultipart('the content type has no boundary');
  if (boundary.length > MULTIPART_BOUNDARY_MAX || !BOUNDARY.test(boundary)) {
    throw new MalformedMultipart('the content type has an invalid boundary');
  }
  return boundary;
}

function readParameter(contentType: string, start: number): string | null {
  let boundary: string | null = null;
  TYPE_PARAMETER.lastIndex = start;
  for (let end = start; end < contentType.length; end = TYPE_PARAMETER.lastIndex) {
    const match = TYPE_PARAMETER.exec(contentType);
    if (match === null) throw new MalformedMultipart('the content type has an invalid parameter');
    if (match[1]?.toLowerCase() !== 'boundary') continue;
    if (boundary !== null) throw new MalformedMultipart('the content type has two boundaries');
    boundary = match[2]?.replace(/\\(.)/g, '$1') ?? match[3]?.trimEnd() ?? '';
  }
  return boundary;
}

/** What clients send as a rule: a boundary as RFC 2046 allows it, in front of nothing else. */
const PLAIN_TYPE = /^multipart\/form-data; boundary=[0-9A-Za-z'()+_,\-./:=?]{1,70}$/;
const PLAIN_TYPE_START = 'multipart/form-data; boundary=';
/** `; name=value`; clients send more in an unquoted value than the token that RFC 9110 allows, such as `=`. */
const TYPE_PARAMETER = /[ \t]*;[ \t]*(?:([^\s=;"]+)=(?:"((?:\\.|[^"\\])*)"|([^";]*)))?/y;
/**
 * Visible ASCII, with blanks that are not its end. RFC 2046 section 5.1.1 allows less, but clients send more (`*****` stands in many
 * examples for Android), and a delimiter is searched for byte by byte, whatever it is made of.
 */
const BOUNDARY = /^[ -~]*[!-~]$/;

export class MalformedMultipart extends Error {}
