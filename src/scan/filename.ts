// Names as they are shown: the last part of a client's filename, and its extension.
import { FILENAME_MAX_CHARACTERS } from '../limits.js';

/**
 * The base name of what a client calls its file: path parts dropped (either slash), control characters removed, at most 255
 * characters. Null when nothing that names a file is left.
 */
export function baseName(filename: string): string | null {
  const last = filename.split(/[/\\]/).at(-1) ?? '';
  // Cut before it is judged: 255 blanks before the rest would leave a name of blanks.
  const kept = [...last.replace(/\p{Cc}/gu, '')].slice(0, FILENAME_MAX_CHARACTERS).join('');
  return kept.trim() === '' || kept === '.' || kept === '..' ? null : kept;
}

/** What follows the last dot, as sent; empty without a dot or with a leading one only. */
export function extensionOf(filename: string): string {
  const dot = filename.lastIndexOf('.');
  return dot <= 0 ? '' : filename.slice(dot + 1);
}
