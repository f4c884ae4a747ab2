// The boundary that a content type names (RFC 2046 section 5.1.1).
import { MULTIPART_BOUNDARY_MAX } from '../../limits.js';
import { MalformedMultipart } from './malformed-multipart.js';

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
