// A strict streaming parser of multipart/form-data (RFC 7578, RFC 2046): no byte of a part is lost in silence, and no body is read two ways. It is pure, and takes
// any split of the bytes.
import { MULTIPART_MARGIN_BYTES, MULTIPART_PART_HEADER_BYTES } from '../../limits.js';
import { MalformedMultipart } from './part-headers.js';

type State = 'start' | 'preamble' | 'delimiter' | 'headers' | 'contentStart' | 'content' | 'epilogue';

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
  #state: State;
  /** Bytes seen but not decided about: a copy, since the caller's memory is not ours later. */
  #held: Buffer | null;
  /** Of the body, so far. */
  #totalBytes: number;
  #parts: number;
  /** Before the first part and behind the last one. */
  #marginBytes: number;

  constructor(boundary: string, partsMax: number) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
    this.#partsMax = partsMax;
    this.#state = 'start';
    this.#held = null;
    this.#totalBytes = 0;
    this.#parts = 0;
    this.#marginBytes = 0;
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
    const input = this.#joined(bytes);
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
  #joined(fresh: Buffer): Buffer {
    const held = this.#held;
    this.#held = null;
    if (this.#state === 'start' && fresh.length < this.#delimiter.length) {
      this.#state = 'preamble';
      return Buffer.concat([CRLF, fresh]);
    }
    if (held === null) return fresh;
    return this.#state === 'preamble' || this.#state === 'content'
      ? this.#seam(held, fresh)
      : Buffer.concat([held, fresh]);
  }

  /** The first delimiter needs no CRLF before it, so the body begins as if one had come. */
  #begin(input: Buffer): number {
    const { length } = this.#delimiter;
    if (input.compare(this.#delimiter, CRLF.length, length, 0, length - CRLF.length) === 0) {
      this.#state = 'delimiter';
      return length - CRLF.length;
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
