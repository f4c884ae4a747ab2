// What headers must say for bytes to be the client's own: those of a request with a form, its boundary among them (RFC 2046 section 5.1.1), and the header block of one part. This is strict
// about its lines and about what they say of the bytes, and lenient about how clients write a filename (RFC 7578, RFC 5987, RFC 8187).
import { Failure } from '../../errors.js';
import { MULTIPART_BOUNDARY_MAX } from '../../limits.js';

export interface Part {
  readonly name: string;
  /** As sent, path and all; null when the part has none. */
  readonly filename: string | null;
}

interface Disposition {
  /** In lower case. */
  readonly type: string;
  /** Null when it has none. */
  readonly name: string | null;
  readonly filename: string | null;
}

/**
 * A line with its end. Line ends of their own in it would be a second header to some readers. Other control characters only spoil a
 * name (filename.ts). Each character of a line has one place in it, so that a line that is none costs no more than one that is.
 */
const LINE = /([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\r\n]*)(?:\r\n(?!$)|$)/y;
const BLANKS = /^[ \t]+/;
/** `; name=token` or `; name="quoted"`, a backslash escaping only quote and backslash: Windows paths come unescaped. */
const PARAMETER = /[ \t]*;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"|([^\s";]*))/y;

/** What clients send as a rule: nothing in it stands for anything else. */
const PLAIN =
  /^Content-Disposition: form-data; name="([^"\\\r\n]*)"(?:; filename="([^"\\%\r\n]*)")?(?:\r\nContent-Type: [\w.+-]+\/[\w.+-]+)?$/;
const NONE: readonly undefined[] = [];

/** Reads the block of a part of a form, without its last CRLF CRLF. Throws MalformedMultipart. */
export function parsePartHeaders(text: string): Part {
  const [, plainName, plainFilename] = PLAIN.exec(text) ?? NONE;
  if (plainName !== undefined) return { name: plainName, filename: plainFilename ?? null };
  const disposition = dispositionIn(text);
  if (disposition === null) throw new MalformedMultipart('a part has no Content-Disposition header');
  const { type, name, filename } = disposition;
  if (type !== 'form-data') throw new MalformedMultipart('a part is not form-data');
  if (name === null) throw new MalformedMultipart('a part has no name');
  return { name, filename };
}

/** The same of a multipart body that is no form: each part is a file, which may have no name. */
export function parseFileHeaders(text: string): Part {
  return { name: '', filename: dispositionIn(text)?.filename ?? '' };
}

function dispositionIn(text: string): Disposition | null {
  let disposition: string | null = null;
  let end = 0;
  do {
    LINE.lastIndex = end;
    const [line, sentName, sentValue] = LINE.exec(text) ?? [];
    if (line === undefined || sentName === undefined || sentValue === undefined) {
      throw new MalformedMultipart('a part has an invalid header line');
    }
    const value = sentValue.replace(BLANKS, '');
    end += line.length;
    const name = sentName.toLowerCase();
    assertAsItIs(name, value.trimEnd());
    if (name === 'content-disposition') {
      if (disposition !== null) throw new MalformedMultipart('a part has two Content-Disposition headers');
      disposition = value;
    }
  } while (end < text.length);
  return disposition === null ? null : parseDisposition(disposition);
}

const TYPE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?=[;\s]|$)/;

/** RFC 2045 section 6.1: what leaves the bytes as they are. Others are for mail (RFC 7578 section 4.7), and curl's `encoder=` sends them. */
const PLAIN_ENCODINGS: ReadonlySet<string> = new Set(['7bit', '8bit', 'binary']);
/** RFC 7578 section 4.3 has ended the way of RFC 2388 to send several files as one part; curl's `-F 'file=(;type=...'` still has it. */
const NESTED = /^multipart\/.*;[ \t]*boundary[ \t]*=/is;

/** Refuses a part whose bytes are not those of the client's file: the verdict would be about something else. */
function assertAsItIs(name: string, value: string): void {
  switch (name) {
    case 'content-transfer-encoding':
      if (PLAIN_ENCODINGS.has(value.toLowerCase())) return;
      throw new MalformedMultipart('the Content-Transfer-Encoding of a part is not 7bit, 8bit or binary');
    case 'content-encoding':
      throw new MalformedMultipart('a part has a Content-Encoding');
    case 'content-range':
      throw new MalformedMultipart('a part has a Content-Range');
    case 'content-type':
      if (NESTED.test(value)) throw new MalformedMultipart('a part is a multipart body of its own');
  }
}

/** The value of a Content-Disposition header. Throws MalformedMultipart. */
export function parseDisposition(value: string): Disposition {
  const type = TYPE.exec(value)?.[0];
  if (type === undefined) throw new MalformedMultipart('a part is not form-data');
  const parameters = new Map<string, string>();
  const text = value.trimEnd();
  PARAMETER.lastIndex = type.length;
  let end = type.length;
  while (end < text.length) {
    const match = PARAMETER.exec(text);
    const name = match?.[1]?.toLowerCase();
    if (match === null || name === undefined) {
      if (/^[ \t]*;[ \t]*$/.test(text.slice(end))) break;
      throw new MalformedMultipart('a part has an invalid Content-Disposition');
    }
    if (parameters.has(name)) throw new MalformedMultipart(`a part has two ${name} parameters`);
    parameters.set(name, match[2] === undefined ? (match[3] ?? '') : unescaped(match[2]));
    end = PARAMETER.lastIndex;
  }
  const filename = extended(parameters.get('filename*')) ?? plain(parameters.get('filename'));
  return { type: type.toLowerCase(), name: parameters.get('name') ?? null, filename };
}

function unescaped(quoted: string): string {
  return quoted.includes('\\') ? quoted.replace(/\\(["\\])/g, '$1') : quoted;
}

/** Browsers send quote, CR and LF of a filename percent-encoded, and nothing else (HTML standard, multipart form data). */
function plain(filename: string | undefined): string | null {
  if (filename === undefined) return null;
  if (!filename.includes('%')) return filename;
  return filename.replace(/%22/g, '"').replace(/%0D/gi, '\r').replace(/%0A/gi, '\n');
}

/** RFC 8187: `UTF-8'en'na%C3%AFve.txt`. Null when it is in a character set that nobody has to know. */
function extended(value: string | undefined): string | null {
  if (value === undefined) return null;
  const [, charset, encoded] = /^([^']*)'[^']*'(.*)$/.exec(value) ?? [];
  if (charset === undefined || encoded === undefined) return null;
  const encoding = /^utf-8$/i.test(charset) ? 'utf8' : /^iso-8859-1$/i.test(charset) ? 'latin1' : null;
  if (encoding === null) return null;
  // Characters that a client should have encoded and didn't stay as they are.
  return encoded.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString(encoding),
  );
}

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
  if (PLAIN_TYPE.test(contentType)) return contentType.slice(PLAIN_TYPE_START.length);
  return mediaTypeOf(contentType) === 'multipart/form-data' ? boundaryOf(contentType) : null;
}

/** Without its parameters, in lower case. */
export function mediaTypeOf(contentType: string): string {
  return contentType.slice(0, typeEnd(contentType)).trim().toLowerCase();
}

function typeEnd(contentType: string): number {
  const semicolon = contentType.indexOf(';');
  return semicolon === -1 ? contentType.length : semicolon;
}

/** Of any multipart type. Throws as `readBoundary`. */
export function boundaryOf(contentType: string): string {
  const boundary = readParameter(contentType, typeEnd(contentType));
  if (boundary === null) throw new MalformedMultipart('the content type has no boundary');
  if (boundary.length > MULTIPART_BOUNDARY_MAX || !BOUNDARY.test(boundary)) {
    throw new MalformedMultipart('the content type has an invalid boundary');
  }
  return boundary;
}

function readParameter(contentType: string, start: number): string | null {
  let boundary: string | null = null;
  TYPE_PARAMETER.lastIndex = start;
  for (let end = start; end < contentType.length; end = TYPE_PARAMETER.lastIndex) {
    const match = TYPE_PARAMETER.exec(contentType);
    if (match === null) throw new MalformedMultipart('the content type has an invalid parameter');
    if (match[1]?.toLowerCase() !== 'boundary') continue;
    if (boundary !== null) throw new MalformedMultipart('the content type has two boundaries');
    boundary = match[2]?.replace(/\\(.)/g, '$1') ?? match[3]?.trimEnd() ?? '';
  }
  return boundary;
}

/** What clients send as a rule: a boundary as RFC 2046 allows it, in front of nothing else. */
const PLAIN_TYPE = /^multipart\/form-data; boundary=[0-9A-Za-z'()+_,\-./:=?]{1,70}$/;
const PLAIN_TYPE_START = 'multipart/form-data; boundary=';
/** `; name=value`; clients send more in an unquoted value than the token that RFC 9110 allows, such as `=`. */
const TYPE_PARAMETER = /[ \t]*;[ \t]*(?:([^\s=;"]+)=(?:"((?:\\.|[^"\\])*)"|([^";]*)))?/y;
/**
 * Visible ASCII, with blanks that are not its end. RFC 2046 section 5.1.1 allows less, but clients send more (`*****` stands in many
 * examples for Android), and a delimiter is searched for byte by byte, whatever it is made of.
 */
const BOUNDARY = /^[ -~]*[!-~]$/;

export class MalformedMultipart extends Error {}
