// A strict streaming parser of multipart/form-data (RFC 7578, RFC 2046): no byte of a file is lost in silence, no body is read two ways.
import {
  MULTIPART_BOUNDARY_MAX,
  MULTIPART_MARGIN_BYTES,
  MULTIPART_PART_HEADER_BYTES,
  MULTIPART_PARTS_MAX,
} from '../limits.js';
import { type Disposition, MalformedPart, parsePartHeaders } from './part-headers.js';

/** Why a body is refused; the text goes to the client. */
export class MalformedMultipart extends Error {}

export interface PartSink {
  /** A part begins. */
  part(disposition: Disposition): void;
  /** Bytes of the part; they are the sink's only until this returns. */
  data(bytes: Uint8Array): void;
  /** The part's closing delimiter was seen. */
  partEnd(): void;
}

export interface MultipartParser {
  /** Takes the next bytes of the body. Throws MalformedMultipart, and what the sink throws; after that the parser is of no use. */
  write(bytes: Uint8Array): void;
  /** The body is over. Throws MalformedMultipart unless the closing delimiter was seen. */
  end(): void;
}

/** What may stand between a delimiter and its CRLF (RFC 2046 transport-padding), in bytes. */
const PADDING_MAX = 128;
const CR = 13;
const LF = 10;
const DASH = 45;
const SPACE = 32;
const TAB = 9;
const HEADERS_END = Buffer.from('\r\n\r\n');
const NOTHING = Buffer.alloc(0);

/**
 * The parser of one body. A delimiter is CRLF, two dashes and the boundary, followed by optional blanks and CRLF, or by two
 * dashes when it is the closing one. Anything else behind these bytes is refused: readers differ about it, and a parser
 * that takes it for the end hands a cut file to the scan.
 */
export function createMultipartParser(boundary: string, sink: PartSink): MultipartParser {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  const dashBoundary = delimiter.subarray(2);
  let state: 'preamble' | 'contentStart' | 'data' | 'delimiter' | 'headers' | 'epilogue' = 'preamble';
  // Bytes seen but not decided about. The first delimiter needs no CRLF before it, so the body begins as if one had come.
  let held: Buffer = Buffer.from('\r\n');
  let marginBytes = 0;
  let parts = 0;

  function write(bytes: Uint8Array): void {
    const fresh = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let input = fresh;
    if (held.length > 0) {
      input = isSearching() ? searchSeam(fresh) : Buffer.concat([held, fresh]);
      held = NOTHING;
    }
    while (input.length > 0) {
      const rest = step(input);
      if (rest === null) {
        // Copied: the caller's memory is not ours after this call.
        held = Buffer.from(input);
        return;
      }
      input = rest;
    }
  }

  function isSearching(): boolean {
    return state === 'preamble' || state === 'data';
  }

  /**
   * Looks for a delimiter that began in the held bytes, without copying more of the fresh ones than it takes to decide:
   * content is megabytes, and goes to the sink from where it arrived.
   */
  function searchSeam(fresh: Buffer): Buffer {
    const seam = Buffer.concat([held, fresh.subarray(0, delimiter.length)]);
    const at = seam.indexOf(delimiter);
    if (at !== -1 && at < held.length) {
      content(seam.subarray(0, at));
      endOfContent();
      return fresh.subarray(at + delimiter.length - held.length);
    }
    if (fresh.length < delimiter.length) return seam;
    content(held);
    return fresh;
  }

  /** Consumes what it can of the input and returns the rest; null when it needs more bytes to decide. */
  function step(input: Buffer): Buffer | null {
    switch (state) {
      case 'preamble':
      case 'data':
        return stepContent(input);
      case 'contentStart':
        return stepContentStart(input);
      case 'delimiter':
        return stepDelimiter(input);
      case 'headers':
        return stepHeaders(input);
      case 'epilogue':
        return stepEpilogue(input);
    }
  }

  /** A boundary right behind the empty line: some readers take that line's CRLF for the delimiter's and see an empty part. */
  function stepContentStart(input: Buffer): Buffer | null {
    const length = Math.min(input.length, dashBoundary.length);
    if (input.compare(dashBoundary, 0, length, 0, length) !== 0) {
      state = 'data';
      return input;
    }
    if (length < dashBoundary.length) return null;
    throw new MalformedMultipart('boundary where content begins');
  }

  function stepContent(input: Buffer): Buffer | null {
    const at = input.indexOf(delimiter);
    if (at !== -1) {
      content(input.subarray(0, at));
      endOfContent();
      return input.subarray(at + delimiter.length);
    }
    const undecided = undecidedLength(input);
    if (undecided === input.length) return null;
    content(input.subarray(0, input.length - undecided));
    return undecided === 0 ? NOTHING : input.subarray(input.length - undecided);
  }

  /** Length of the longest end of the input that is a beginning of the delimiter. */
  function undecidedLength(input: Buffer): number {
    let from = input.indexOf(CR, Math.max(0, input.length - delimiter.length + 1));
    while (from !== -1) {
      const length = input.length - from;
      if (input.compare(delimiter, 0, length, from) === 0) return length;
      from = input.indexOf(CR, from + 1);
    }
    return 0;
  }

  function content(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (state === 'data') sink.data(bytes);
    else margin(bytes.length);
  }

  function endOfContent(): void {
    if (state === 'data') sink.partEnd();
    state = 'delimiter';
  }

  function stepDelimiter(input: Buffer): Buffer | null {
    if (input[0] === DASH) {
      if (input.length < 2) return null;
      if (input[1] !== DASH) throw new MalformedMultipart('boundary followed by other text');
      state = 'epilogue';
      return input.subarray(2);
    }
    let index = 0;
    while (input[index] === SPACE || input[index] === TAB) index += 1;
    if (index > PADDING_MAX) throw new MalformedMultipart('too many blanks after a boundary');
    if (input.length < index + 2 && (index === input.length || input[index] === CR)) return null;
    if (input[index] !== CR || input[index + 1] !== LF) {
      throw new MalformedMultipart('boundary followed by other text');
    }
    parts += 1;
    if (parts > MULTIPART_PARTS_MAX) throw new MalformedMultipart(`more than ${MULTIPART_PARTS_MAX} parts`);
    state = 'headers';
    return input.subarray(index + 2);
  }

  function stepHeaders(input: Buffer): Buffer | null {
    if (input[0] === CR && input[1] === LF) throw new MalformedMultipart('a part has no headers');
    const at = input.indexOf(HEADERS_END);
    // Three bytes of the end may be there already: the bound must not depend on where the body was cut.
    const headerBytes = at === -1 ? input.length - HEADERS_END.length + 1 : at;
    if (headerBytes > MULTIPART_PART_HEADER_BYTES) {
      throw new MalformedMultipart(`part headers over ${MULTIPART_PART_HEADER_BYTES} bytes`);
    }
    if (at === -1) return null;
    state = 'contentStart';
    sink.part(readHeaders(input.subarray(0, at)));
    return input.subarray(at + HEADERS_END.length);
  }

  function stepEpilogue(input: Buffer): Buffer {
    for (const byte of input) {
      // RFC 2046 tells readers to ignore text here. A reader that doesn't would see parts that we never scanned.
      if (byte !== CR && byte !== LF && byte !== SPACE && byte !== TAB) {
        throw new MalformedMultipart('text after the closing boundary');
      }
    }
    margin(input.length);
    return NOTHING;
  }

  function margin(bytes: number): void {
    marginBytes += bytes;
    if (marginBytes > MULTIPART_MARGIN_BYTES) {
      throw new MalformedMultipart(`over ${MULTIPART_MARGIN_BYTES} bytes outside of the parts`);
    }
  }

  return {
    write,
    end() {
      if (state !== 'epilogue') throw new MalformedMultipart('unexpected end of the body');
    },
  };
}

function readHeaders(block: Buffer): Disposition {
  try {
    return parsePartHeaders(block);
  } catch (error) {
    if (error instanceof MalformedPart) throw new MalformedMultipart(error.message);
    throw error;
  }
}

/**
 * The boundary of a `multipart/form-data` content type. `notMultipart`: another type, or none at all.
 * Throws MalformedMultipart when the boundary is missing, repeated, too long, or has other characters than visible ASCII and blanks.
 */
export function readBoundary(contentType: string | undefined): { readonly boundary: string } | 'notMultipart' {
  if (contentType === undefined) return 'notMultipart';
  const semicolon = contentType.indexOf(';');
  const type = semicolon === -1 ? contentType : contentType.slice(0, semicolon);
  if (type.trim().toLowerCase() !== 'multipart/form-data') return 'notMultipart';
  const boundary = readParameter(contentType, type.length);
  if (boundary === null) throw new MalformedMultipart('the content type has no boundary');
  if (boundary.length > MULTIPART_BOUNDARY_MAX || !BOUNDARY.test(boundary)) {
    throw new MalformedMultipart('the content type has an invalid boundary');
  }
  return { boundary };
}

function readParameter(contentType: string, start: number): string | null {
  let boundary: string | null = null;
  PARAMETER.lastIndex = start;
  for (let end = start; end < contentType.length; end = PARAMETER.lastIndex) {
    const match = PARAMETER.exec(contentType);
    if (match === null) throw new MalformedMultipart('the content type has an invalid parameter');
    if (match[1]?.toLowerCase() !== 'boundary') continue;
    if (boundary !== null) throw new MalformedMultipart('the content type has two boundaries');
    boundary = match[2]?.replace(/\\(.)/g, '$1') ?? match[3]?.trimEnd() ?? '';
  }
  return boundary;
}

/** `; name=value`; clients send more in an unquoted value than the token that RFC 9110 allows, such as `=`. */
const PARAMETER = /[ \t]*;[ \t]*(?:([^\s=;"]+)=(?:"((?:\\.|[^"\\])*)"|([^";]*)))?/y;
/**
 * Visible ASCII, with blanks that are not its end. RFC 2046 section 5.1.1 allows less, but clients send more (`*****` stands in many
 * examples for Android), and a delimiter is searched for byte by byte, whatever it is made of.
 */
const BOUNDARY = /^[ -~]*[!-~]$/;
