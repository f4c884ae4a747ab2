// The header block of one part: strict about its lines, lenient about how clients write a filename (RFC 7578, RFC 5987, RFC 8187).

/** Why a part's headers are refused; the text goes to the client. */
export class MalformedPart extends Error {}

export interface Disposition {
  readonly name: string;
  /** As sent, path and all; null when the part has none. */
  readonly filename: string | null;
}

const LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*)$/s;
/** Line ends of their own would be a second header to some readers. Other control characters only spoil a name (filename.ts). */
const LINE_END = /[\r\n]/;
/** `; name=token` or `; name="quoted"`, a backslash escaping only quote and backslash: Windows paths come unescaped. */
const PARAMETER = /[ \t]*;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"|([^\s";]*))/y;

/** Reads the block without its last CRLF CRLF. Throws MalformedPart. */
export function parsePartHeaders(block: Buffer): Disposition {
  let disposition: string | null = null;
  // Lossy on purpose: bytes that are no UTF-8 become U+FFFD, in a name that is only shown.
  for (const line of block.toString('utf8').split('\r\n')) {
    const [, name, value] = LINE.exec(line) ?? [];
    if (name === undefined || value === undefined || LINE_END.test(value)) {
      throw new MalformedPart('a part has an invalid header line');
    }
    if (name.toLowerCase() !== 'content-disposition') continue;
    if (disposition !== null) throw new MalformedPart('a part has two Content-Disposition headers');
    disposition = value;
  }
  if (disposition === null) throw new MalformedPart('a part has no Content-Disposition header');
  return parseDisposition(disposition);
}

function parseDisposition(value: string): Disposition {
  const type = /^[^;\s]*/.exec(value)?.[0] ?? '';
  if (type.toLowerCase() !== 'form-data') throw new MalformedPart('a part is not form-data');
  const parameters = new Map<string, string>();
  const text = value.trimEnd();
  PARAMETER.lastIndex = type.length;
  let end = type.length;
  while (end < text.length) {
    const match = PARAMETER.exec(text);
    const name = match?.[1]?.toLowerCase();
    if (match === null || name === undefined) {
      if (/^[ \t]*;[ \t]*$/.test(text.slice(end))) break;
      throw new MalformedPart('a part has an invalid Content-Disposition');
    }
    if (parameters.has(name)) throw new MalformedPart(`a part has two ${name} parameters`);
    parameters.set(name, match[2] === undefined ? (match[3] ?? '') : match[2].replace(/\\(["\\])/g, '$1'));
    end = PARAMETER.lastIndex;
  }
  const name = parameters.get('name');
  if (name === undefined) throw new MalformedPart('a part has no name');
  return { name, filename: extended(parameters.get('filename*')) ?? plain(parameters.get('filename')) };
}

/** Browsers send quote, CR and LF of a filename percent-encoded, and nothing else (HTML standard, multipart form data). */
function plain(filename: string | undefined): string | null {
  return filename?.replace(/%22/g, '"').replace(/%0D/gi, '\r').replace(/%0A/gi, '\n') ?? null;
}

/** RFC 8187: `UTF-8'en'na%C3%AFve.txt`. Null when it is in a character set that nobody has to know. */
function extended(value: string | undefined): string | null {
  const [, charset, encoded] = /^([^']*)'[^']*'(.*)$/.exec(value ?? '') ?? [];
  if (charset === undefined || encoded === undefined) return null;
  const encoding = /^utf-8$/i.test(charset) ? 'utf8' : /^iso-8859-1$/i.test(charset) ? 'latin1' : null;
  if (encoding === null) return null;
  // Characters that a client should have encoded and didn't stay as they are.
  return encoded.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString(encoding),
  );
}
