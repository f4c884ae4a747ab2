// How the body of a response is encoded, and what of that the engine could not open.
import { Failure } from '../errors.js';
import { NOT_HTTP, type OriginResponse } from './origin.js';

const UNREADABLE = 'the body comes in an encoding that cannot be opened';
/** RFC 1952 section 2.3.1: the magic number, and deflate as the method. */
const GZIP = [0x1f, 0x8b, 0x08];

/**
 * What a client of the origin would have to decode, by RFC 9110 section 8.4 and RFC 9112 section 7. libclamav opens gzip alone:
 * `deflate`, with and without its zlib frame, is clean for it whatever it holds, as br and zstd are. Throws Failure `downloadFailed`.
 */
export function codingCheck(response: Pick<OriginResponse, 'list'>) {
  const transfer = response.list('transfer-encoding');
  const chunked = transfer.indexOf('chunked');
  // RFC 9112 section 6.1: once, and last.
  if (chunked !== -1 && chunked < transfer.length - 1) throw new Failure('downloadFailed', NOT_HTTP);
  const encodings = response.list('content-encoding').filter((coding) => coding !== 'identity');
  const codings = [...encodings, ...transfer.filter((coding) => coding !== 'chunked')];
  const [coding] = codings;
  if (coding === undefined)
    return { look: (_bytes: Uint8Array): void => undefined, assertAsSaid: (): void => undefined };
  if (codings.length > 1 || (coding !== 'gzip' && coding !== 'x-gzip')) throw new Failure('downloadFailed', UNREADABLE);
  const begin: number[] = [];
  return {
    /** Looks at the next bytes of the body. */
    look(bytes: Uint8Array): void {
      if (begin.length < GZIP.length) begin.push(...bytes.subarray(0, GZIP.length - begin.length));
    },
    /**
     * The body has come. Throws Failure `downloadFailed` when it isn't what its headers say: clients such as curl take a zlib stream
     * under the name of gzip as well.
     */
    assertAsSaid(): void {
      // No bytes at all are an empty file, whatever they are called.
      const isEmpty = begin.length === 0;
      if (!isEmpty && GZIP.some((byte, index) => begin[index] !== byte))
        throw new Failure('downloadFailed', UNREADABLE);
    },
  };
}
