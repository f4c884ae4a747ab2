// The delimiter between the parts of a multipart body (RFC 2046 section 5.1.1): searched for in content that arrives in pieces, and what stands behind it.
import { MalformedMultipart } from './malformed-multipart.js';

/** What lies between delimiters. */
export interface Content {
  /** Bytes that belong to no delimiter. */
  take(bytes: Buffer): void;
  /** A delimiter was found. */
  end(): void;
}

/** What stands behind a delimiter. */
export interface DelimiterEnd {
  /** It is the closing one: no part follows. */
  readonly closes: boolean;
  readonly lengthBytes: number;
}

/** What may stand between a delimiter and its CRLF (RFC 2046 transport-padding), in bytes. */
const PADDING_MAX = 128;
const CR = 13;
const LF = 10;
const DASH = 45;
const SPACE = 32;
const TAB = 9;
const NOTHING = Buffer.alloc(0);

/** Returns what is left of the input; null when it needs more bytes to decide. */
export function searchDelimiter(input: Buffer, delimiter: Buffer, content: Content): Buffer | null {
  const at = input.indexOf(delimiter);
  if (at !== -1) {
    content.take(input.subarray(0, at));
    content.end();
    return input.subarray(at + delimiter.length);
  }
  const undecided = undecidedLength(input, delimiter);
  if (undecided === input.length) return null;
  content.take(input.subarray(0, input.length - undecided));
  return undecided === 0 ? NOTHING : input.subarray(input.length - undecided);
}

/**
 * Looks for a delimiter that began in the held bytes. It copies only as many fresh bytes as the decision takes: content
 * is megabytes, and goes on from where it arrived.
 */
export function searchSeam(held: Buffer, fresh: Buffer, delimiter: Buffer, content: Content): Buffer {
  const seam = Buffer.concat([held, fresh.subarray(0, delimiter.length)]);
  const at = seam.indexOf(delimiter);
  if (at !== -1 && at < held.length) {
    content.take(seam.subarray(0, at));
    content.end();
    return fresh.subarray(at + delimiter.length - held.length);
  }
  if (fresh.length < delimiter.length) return seam;
  content.take(held);
  return fresh;
}

/** Length of the longest end of the input that is a beginning of the delimiter. */
function undecidedLength(input: Buffer, delimiter: Buffer): number {
  let from = input.indexOf(CR, Math.max(0, input.length - delimiter.length + 1));
  while (from !== -1) {
    const length = input.length - from;
    if (input.compare(delimiter, 0, length, from) === 0) return length;
    from = input.indexOf(CR, from + 1);
  }
  return 0;
}

/** Null: it needs more bytes to decide. Throws MalformedMultipart. */
export function readDelimiterEnd(input: Buffer): DelimiterEnd | null {
  if (input[0] === DASH) {
    if (input.length < 2) return null;
    if (input[1] !== DASH) throw new MalformedMultipart('boundary followed by other text');
    return { closes: true, lengthBytes: 2 };
  }
  let index = 0;
  while (input[index] === SPACE || input[index] === TAB) index += 1;
  if (index > PADDING_MAX) throw new MalformedMultipart('too many blanks after a boundary');
  if (input.length < index + 2 && (index === input.length || input[index] === CR)) return null;
  if (input[index] !== CR || input[index + 1] !== LF) throw new MalformedMultipart('boundary followed by other text');
  return { closes: false, lengthBytes: index + 2 };
}
