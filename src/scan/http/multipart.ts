// A strict streaming parser of multipart/form-data (RFC 7578, RFC 2046): no byte of a file is lost in silence, no body is read two ways.
import { MULTIPART_MARGIN_BYTES, MULTIPART_PART_HEADER_BYTES, MULTIPART_PARTS_MAX } from '../../limits.js';
import { type Content, readDelimiterEnd, searchDelimiter, searchSeam } from './delimiter.js';
import { MalformedMultipart } from './malformed-multipart.js';
import { type Disposition, parsePartHeaders } from './part-headers.js';

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

const CR = 13;
const LF = 10;
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
  const margin = createMargin();
  let state: 'preamble' | 'contentStart' | 'data' | 'delimiter' | 'headers' | 'epilogue' = 'preamble';
  // Bytes seen but not decided about. The first delimiter needs no CRLF before it, so the body begins as if one had come.
  let held: Buffer = Buffer.from('\r\n');
  let parts = 0;

  /** Of a part, or before the first one. */
  const content: Content = {
    take(bytes) {
      if (bytes.length === 0) return;
      if (state === 'data') sink.data(bytes);
      else margin.add(bytes.length);
    },
    end() {
      if (state === 'data') sink.partEnd();
      state = 'delimiter';
    },
  };

  /** Consumes what it can of the input and returns the rest; null when it needs more bytes to decide. */
  function step(input: Buffer): Buffer | null {
    switch (state) {
      case 'preamble':
      case 'data':
        return searchDelimiter(input, delimiter, content);
      case 'contentStart':
        if (!isContent(input, delimiter)) return null;
        state = 'data';
        return input;
      case 'delimiter':
        return stepDelimiter(input);
      case 'headers':
        return stepHeaders(input);
      case 'epilogue':
        checkEpilogue(input);
        margin.add(input.length);
        return NOTHING;
    }
  }

  function stepDelimiter(input: Buffer): Buffer | null {
    const end = readDelimiterEnd(input);
    if (end === null) return null;
    if (!end.closes) parts += 1;
    if (parts > MULTIPART_PARTS_MAX) throw new MalformedMultipart(`more than ${MULTIPART_PARTS_MAX} parts`);
    state = end.closes ? 'epilogue' : 'headers';
    return input.subarray(end.lengthBytes);
  }

  function stepHeaders(input: Buffer): Buffer | null {
    const lengthBytes = headersLength(input);
    if (lengthBytes === null) return null;
    state = 'contentStart';
    sink.part(parsePartHeaders(input.subarray(0, lengthBytes)));
    return input.subarray(lengthBytes + HEADERS_END.length);
  }

  /** The bytes that were held, with the fresh ones behind them. */
  function join(fresh: Buffer): Buffer {
    if (held.length === 0) return fresh;
    const isSearching = state === 'preamble' || state === 'data';
    return isSearching ? searchSeam(held, fresh, delimiter, content) : Buffer.concat([held, fresh]);
  }

  return {
    write(bytes) {
      held = consume(join(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)), step);
    },
    end() {
      if (state !== 'epilogue') throw new MalformedMultipart('unexpected end of the body');
    },
  };
}

/** Takes steps until the input is used up, or undecided. Returns a copy of what is undecided: the caller's memory is not ours later. */
function consume(input: Buffer, step: (input: Buffer) => Buffer | null): Buffer {
  let left = input;
  while (left.length > 0) {
    const rest = step(left);
    if (rest === null) return Buffer.from(left);
    left = rest;
  }
  return NOTHING;
}

/**
 * A boundary right behind the empty line is refused: some readers take that line's CRLF for the delimiter's and see an empty part.
 * False: it needs more bytes to decide.
 */
function isContent(input: Buffer, delimiter: Buffer): boolean {
  const dashBoundary = delimiter.subarray(2);
  const length = Math.min(input.length, dashBoundary.length);
  if (input.compare(dashBoundary, 0, length, 0, length) !== 0) return true;
  if (length < dashBoundary.length) return false;
  throw new MalformedMultipart('boundary where content begins');
}

/** Of a part's headers, without the empty line; null: its end has not come yet. */
function headersLength(input: Buffer): number | null {
  if (input[0] === CR && input[1] === LF) throw new MalformedMultipart('a part has no headers');
  const at = input.indexOf(HEADERS_END);
  // Three bytes of the end may be there already: the bound must not depend on where the body was cut.
  const headerBytes = at === -1 ? input.length - HEADERS_END.length + 1 : at;
  if (headerBytes > MULTIPART_PART_HEADER_BYTES) {
    throw new MalformedMultipart(`part headers over ${MULTIPART_PART_HEADER_BYTES} bytes`);
  }
  return at === -1 ? null : at;
}

function checkEpilogue(input: Buffer): void {
  for (const byte of input) {
    // RFC 2046 tells readers to ignore text here. A reader that doesn't would see parts that we never scanned.
    if (byte !== CR && byte !== LF && byte !== SPACE && byte !== TAB) {
      throw new MalformedMultipart('text after the closing boundary');
    }
  }
}

/** Bytes before the first part and behind the last one; bounded. */
function createMargin() {
  let marginBytes = 0;
  return {
    add(bytes: number): void {
      marginBytes += bytes;
      if (marginBytes > MULTIPART_MARGIN_BYTES) {
        throw new MalformedMultipart(`over ${MULTIPART_MARGIN_BYTES} bytes outside of the parts`);
      }
    },
  };
}
