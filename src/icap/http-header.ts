// What is asked of the HTTP headers that a request brings: they are read loosely, and sent back byte for byte.
import { baseName, nameFromUrl } from '../scan/filename.js';
import { parseUrl } from '../url-text.js';

/** The values of all lines of the name, in lower case. */
function valuesOf(block: Buffer | null, name: string): string[] {
  const values: string[] = [];
  for (const line of linesOf(block)) {
    const colon = line.indexOf(':');
    if (line.slice(0, colon).toLowerCase() === name) values.push(line.slice(colon + 1).trim());
  }
  return values;
}

function linesOf(block: Buffer | null): string[] {
  return block === null ? [] : block.toString('latin1').split('\r\n');
}

const DIGITS = /^\d{1,15}$/;

/** Null: it isn't said, or more than one thing is. */
export function contentLengthOf(block: Buffer | null): number | null {
  const [first, ...others] = valuesOf(block, 'content-length');
  if (first === undefined || !DIGITS.test(first) || others.some((each) => each !== first)) return null;
  return Number(first);
}

/** Null: none is said. What several lines say is several types, of which none is a form. */
export function contentTypeOf(block: Buffer | null): string | null {
  return valuesOf(block, 'content-type').join(', ') || null;
}

/** Its bytes are not those that the type speaks of. */
export function isEncoded(block: Buffer | null): boolean {
  return encodingsOf(block).some((each) => each !== 'identity');
}

/** What the engine unpacks by itself. */
const READABLE = new Set(['identity', 'gzip', 'x-gzip']);

/** The first encoding that nobody looks into; null: there is none. */
export function opaqueEncodingOf(block: Buffer | null): string | null {
  return encodingsOf(block).find((each) => !READABLE.has(each)) ?? null;
}

function encodingsOf(block: Buffer | null): string[] {
  const encodings = valuesOf(block, 'content-encoding').flatMap((value) => value.toLowerCase().split(','));
  return encodings.map((each) => each.trim()).filter((each) => each !== '');
}

/** By the response's own name, or by the address that was asked for; empty where neither says one. */
export function filenameOf(request: Buffer | null, response: Buffer | null): string {
  const [disposition = ''] = valuesOf(response, 'content-disposition');
  return sentName(disposition) ?? nameOfTarget(request);
}

const PARAMETER = 'filename=';

function sentName(disposition: string): string | null {
  const at = disposition.toLowerCase().indexOf(PARAMETER);
  if (at === -1) return null;
  const value = disposition.slice(at + PARAMETER.length);
  const isQuoted = value.startsWith('"');
  const [name = ''] = isQuoted ? value.slice(1).split('"', 1) : value.split(';', 1);
  return baseName(Buffer.from(name.trim(), 'latin1').toString('utf8'));
}

function nameOfTarget(request: Buffer | null): string {
  const [line = ''] = linesOf(request);
  const [, target = ''] = line.split(' ', 2);
  const [host = 'localhost'] = valuesOf(request, 'host');
  const address = target.startsWith('/') ? `http://${host}${target}` : target;
  const url = parseUrl(address);
  return url === null ? '' : nameFromUrl(url).filename;
}
