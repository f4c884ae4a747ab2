// Names as they are shown: the last part of a client's filename or of a URL, and its extension.
import { FILENAME_MAX_CHARACTERS } from './limits.js';
import { parseUrl } from './wire-text.js';

/** With its dot: `.safetensors` and `.pkg.tar.zst` are far below. */
const EXTENSION_MAX_CHARACTERS = 32;

/** ASCII that is a base name already: most are, and are looked at once. Longer ones may have to be cut. */
const PLAIN = /^[!-.0-[\]-~][ -.0-[\]-~]{0,99}$/;

/**
 * The base name of what a client calls its file: path parts dropped (either slash), and backslashes at its end; control characters
 * removed, at most 255 characters, of which the extension is kept. Null when nothing that names a file is left.
 */
export function baseName(filename: string): string | null {
  const kept = PLAIN.test(filename) ? filename : keptOf(filename);
  return kept === '.' || kept === '..' || kept.trim() === '' ? null : kept;
}

function keptOf(filename: string): string {
  // A slash ends no file's name. A backslash may, but for Windows, and browsers send it as it is.
  const behindSlash = filename.slice(filename.lastIndexOf('/') + 1);
  const last = behindSlash.split('\\').findLast((part) => part !== '') ?? '';
  const characters = [...last.replace(/\p{Cc}/gu, '')];
  // Cut before it is checked: 255 blanks before the rest would leave a name of blanks.
  return characters.length <= FILENAME_MAX_CHARACTERS ? characters.join('') : shortened(characters);
}

/** What a file is for is in its extension: the middle goes. What is longer than any extension is none. */
function shortened(characters: readonly string[]): string {
  const dot = characters.lastIndexOf('.');
  const extension = dot > 0 ? characters.slice(dot) : [];
  const end = extension.length <= EXTENSION_MAX_CHARACTERS ? extension : [];
  return [...characters.slice(0, FILENAME_MAX_CHARACTERS - end.length), ...end].join('');
}

export interface ShownName {
  readonly filename: string;
  readonly extension: string;
}

/**
 * The last path segment of a URL that isn't empty, percent-decoded and shown by the rules of baseName; the host, which has no
 * extension, when that leaves nothing.
 */
export function nameFromUrl(url: URL): ShownName {
  const segment = url.pathname.split('/').findLast((each) => each !== '') ?? '';
  const filename = baseName(percentDecoded(segment));
  return filename === null ? { filename: url.hostname, extension: '' } : withExtension(filename);
}

/** Bytes that aren't UTF-8 show as U+FFFD, and a percent sign without its digits as itself. */
export function percentDecoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'));
}

export const withExtension = (filename: string): ShownName => ({ filename, extension: extensionOf(filename) });

/** Of a URL that can't be fetched as well, for its history; empty when it is none. */
export function shownNameOf(text: string): ShownName & { readonly url: string | null } {
  const url = parseUrl(text);
  if (url === null) return { filename: '', extension: '', url: null };
  const name = nameFromUrl(url);
  url.username = '';
  url.password = '';
  return { ...name, url: url.href };
}

/** A path of the machine as it is shown: its end says more than its beginning. */
export function shownPath(path: string): string {
  return [...path.replace(/\p{Cc}/gu, '')].slice(-FILENAME_MAX_CHARACTERS).join('');
}

/** What follows the last dot, as sent; empty without a dot or with a leading one only. It may be a path. */
export function extensionOf(filename: string): string {
  const name = filename.slice(filename.lastIndexOf('/') + 1);
  const dot = name.lastIndexOf('.');
  return dot <= 0 ? '' : name.slice(dot + 1);
}
