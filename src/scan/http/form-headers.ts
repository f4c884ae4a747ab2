// What the headers of a request must say for its body to be a form with the client's own bytes.
import { Failure } from '../../errors.js';
import { readBoundary } from './boundary.js';
import { MalformedMultipart } from './malformed-multipart.js';

/**
 * The boundary of the form. Throws Failure `contentEncoded`, `unsupportedMediaType` or `malformedMultipart`: what is encoded, or a
 * piece of something larger, is not what a verdict would be about.
 */
export function boundaryOf(headers: ReadonlyMap<string, string>): string {
  const encoding = headers.get('content-encoding')?.toLowerCase() ?? '';
  // RFC 9110 section 8.4.1: `identity` is the word for none, and changes nothing.
  if (encoding !== '' && encoding !== 'identity') throw new Failure('contentEncoded');
  const result = boundary(headers.get('content-type'));
  // Libraries for large uploads send a file in pieces, each as a form of its own with its place in the file (RFC 9110 section 14.4).
  if (headers.has('content-range')) throw new Failure('malformedMultipart', 'the request has a Content-Range');
  return result;
}

function boundary(contentType: string | undefined): string {
  try {
    const result = readBoundary(contentType);
    if (result === 'notMultipart') throw new Failure('unsupportedMediaType');
    return result.boundary;
  } catch (error) {
    if (error instanceof MalformedMultipart) throw new Failure('malformedMultipart', error.message);
    throw error;
  }
}
