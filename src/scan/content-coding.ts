// Whether a downloaded body is what the engine sees: an origin may answer in an encoding though it was asked for none.
import { Failure } from '../errors.js';
import type { Content } from './body.js';
import type { OriginResponse } from './download.js';

export type ContentCoding = 'none' | 'gzip';

const UNREADABLE = 'the body comes in an encoding that cannot be opened';
/** RFC 1952 section 2.3.1: the magic number, and deflate as the method. */
const GZIP = [0x1f, 0x8b, 0x08];

/**
 * What a client of the origin would have to decode, by RFC 9110 section 8.4 and RFC 9112 section 7. libclamav opens gzip alone:
 * `deflate`, with and without its zlib frame, is clean for it whatever it holds, as br and zstd are. Throws Failure `downloadFailed`.
 */
export function codingOf(response: Pick<OriginResponse, 'list'>): ContentCoding {
  const transfer = response.list('transfer-encoding').filter((coding) => coding !== 'chunked');
  const codings = [...response.list('content-encoding').filter((coding) => coding !== 'identity'), ...transfer];
  if (codings.length === 0) return 'none';
  const [coding] = codings;
  if (codings.length > 1 || (coding !== 'gzip' && coding !== 'x-gzip')) throw new Failure('downloadFailed', UNREADABLE);
  return 'gzip';
}

/** Clients such as curl take a zlib stream under the name of gzip as well. Throws Failure `downloadFailed`. */
export function assertCoded(coding: ContentCoding, { buffer, sizeBytes }: Content): void {
  const head = new Uint8Array(buffer, 0, Math.min(sizeBytes, GZIP.length));
  if (coding === 'gzip' && GZIP.some((byte, index) => head[index] !== byte)) {
    throw new Failure('downloadFailed', UNREADABLE);
  }
}
