// What the headers of a request must say for its body to be the client's own bytes, and the boundary of a form (RFC 2046 section 5.1.1).
import { Failure } from '../../errors.js';
import { MULTIPART_BOUNDARY_MAX } from '../../limits.js';
import { MalformedMultipart } from './malformed-multipart.js';

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
  if (PLAIN.test(contentType)) return contentType.slice(PLAIN_START.length);
  const semicolon = contentType.indexOf(';');
  const type = semicolon === -1 ? contentType : contentType.slice(0, semicolon);
  if (type.trim().toLowerCase() !== 'multipart/form-data') return null;
  const boundary = readParameter(contentType, type.length);
  if (boundary === null) throw new MalformedMultipart('the content type has no boundary');
  if (boundary.length > MULTIPART_BOUNDARY_MAX || !BOUNDARY.test(boundary)) {
    throw new MalformedMultipart('the content type has an invalid boundary');
  }
  return boundary;
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

/** What clients send as a rule: a boundary as RFC 2046 allows it, in front of nothing else. */
const PLAIN = /^multipart\/form-data; boundary=[0-9A-Za-z'()+_,\-./:=?]{1,70}$/;
const PLAIN_START = 'multipart/form-data; boundary=';
/** `; name=value`; clients send more in an unquoted value than the token that RFC 9110 allows, such as `=`. */
const PARAMETER = /[ \t]*;[ \t]*(?:([^\s=;"]+)=(?:"((?:\\.|[^"\\])*)"|([^";]*)))?/y;
/**
 * Visible ASCII, with blanks that are not its end. RFC 2046 section 5.1.1 allows less, but clients send more (`*****` stands in many
 * examples for Android), and a delimiter is searched for byte by byte, whatever it is made of.
 */
const BOUNDARY = /^[ -~]*[!-~]$/;
