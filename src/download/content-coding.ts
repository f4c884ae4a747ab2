// Whether a downloaded body is what the engine sees: an origin may answer in an encoding though it was asked for none.
import { Failure } from '../errors.js';
import type { OriginResponse } from './origin.js';

export interface CodingCheck {
  /** Looks at the next bytes of the body. */
  look(bytes: Uint8Array): void;
  /**
   * The body has come. Throws Failure `downloadFailed` when it isn't what its headers say: clients such as curl take a zlib stream
   * under the name of gzip as well.
   */
  assertAsSaid(): void;
}

const UNREADABLE = 'the body comes in an encoding that cannot be opened';
/** RFC 1952 section 2.3.1: the magic number, and deflate as the method. */
const GZIP = [0x1f, 0x8b, 0x08];

/**
 * What a client of the origin would have to decode, by RFC 9110 section 8.4 and RFC 9112 section 7. libclamav opens gzip alone:
 * `deflate`, with and without its zlib frame, is clean for it whatever it holds, as br and zstd are. Throws Failure `downloadFailed`.
 */
export function codingCheck(response: Pick<OriginResponse, 'list'>): CodingCheck {
  const transfer = response.list('transfer-encoding').filter((coding) => coding !== 'chunked');
  const codings = [...response.list('content-encoding').filter((coding) => coding !== 'identity'), ...transfer];
  const [coding] = codings;
  if (coding === undefined) return { look: () => undefined, assertAsSaid: () => undefined };
  if (codings.length > 1 || (coding !== 'gzip' && coding !== 'x-gzip')) throw new Failure('downloadFailed', UNREADABLE);
  const begin: number[] = [];
  return {
    look(bytes) {
      if (begin.length < GZIP.length) begin.push(...bytes.subarray(0, GZIP.length - begin.length));
    },
    assertAsSaid() {
      // No bytes at all are an empty file, whatever they are called.
      const isEmpty = begin.length === 0;
      if (!isEmpty && GZIP.some((byte, index) => begin[index] !== byte))
        throw new Failure('downloadFailed', UNREADABLE);
    },
  };
}
