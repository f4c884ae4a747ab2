// What a body pattern surely contains: the runs of bytes between its wildcards (ClamAV's manual, "Body-based signature content format").

/** Bytes that lie in every content in which the pattern matches. */
export interface Run {
  /** As lower-case hexadecimal digits. */
  readonly hex: string;
  /** Where they lie, in the signature's words; `*`: anywhere. */
  readonly offset: string;
}

/** As the manual has them; `$n$` is a macro group, and what else there may be is not understood. */
const OFFSET = /^(\*|(\d+|EOF-\d+|EP[+-]\d+|S(\d+|L|E\d*)\+\d+|VI)(,\d+)?|SE\d+)$/;
const HEX_DIGITS = '0123456789abcdef';

/** One list for each form that the pattern is looked for in; a match is a match in one of them. Null: not understood. */
export function runsOf(pattern: string, offset: string, modifiers: string): readonly (readonly Run[])[] | null {
  if (!OFFSET.test(offset)) return null;
  const parts = fixedParts(pattern.toLowerCase(), modifiers.includes('i'));
  if (parts === null) return null;
  // Of whole words, a boundary may stand before the first byte.
  const first = modifiers.includes('f') ? '*' : offset;
  const narrow = parts.map(({ hex, isFirst }) => ({ hex, offset: isFirst ? first : '*' }));
  if (!modifiers.includes('w')) return [narrow];
  const wide = narrow.map((run) => ({ ...run, hex: widened(run.hex) }));
  return modifiers.includes('a') ? [wide, narrow] : [wide];
}

/** UTF-16, little endian. */
function widened(hex: string): string {
  let wide = '';
  for (let at = 0; at < hex.length; at += 2) wide += `${hex.slice(at, at + 2)}00`;
  return wide;
}

interface FixedPart {
  readonly hex: string;
  /** The pattern begins with it. */
  readonly isFirst: boolean;
}

function fixedParts(pattern: string, isAnyCase: boolean): FixedPart[] | null {
  const parts: FixedPart[] = [];
  let start = 0;
  let at = 0;
  const end = (): void => {
    if (at > start) parts.push({ hex: pattern.slice(start, at), isFirst: start === 0 });
  };
  while (at < pattern.length) {
    const byte = byteAt(pattern, at);
    if (byte !== null && !(isAnyCase && hasCase(byte))) {
      at += 2;
      continue;
    }
    end();
    const length = byte === null ? wildcardLength(pattern, at) : 2;
    if (length === null) return null;
    at += length;
    start = at;
  }
  end();
  return parts;
}

function byteAt(pattern: string, at: number): number | null {
  const high = HEX_DIGITS.indexOf(pattern[at] ?? ' ');
  const low = HEX_DIGITS.indexOf(pattern[at + 1] ?? ' ');
  return high < 0 || low < 0 ? null : high * 16 + low;
}

/** What libclamav's tolower() changes depends on the locale above ASCII. */
function hasCase(byte: number): boolean {
  return (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a) || byte >= 0x80;
}

/** Characters of what stands here instead of a byte. */
function wildcardLength(pattern: string, at: number): number | null {
  const pair = pattern.slice(at, at + 2);
  if (pair.startsWith('*')) return 1;
  // Nibbles: `??`, `a?`, `?a`.
  if (/^([0-9a-f]\?|\?[0-9a-f?])$/.test(pair)) return 2;
  const closed = (close: string): number | null => {
    const end = pattern.indexOf(close, at);
    return end < 0 ? null : end + 1 - at;
  };
  if (pair.startsWith('{')) return closed('}');
  if (pair.startsWith('[')) return closed(']');
  if (pair.startsWith('(') || pair === '!(') return alternativesLength(pattern, at);
  return null;
}

function alternativesLength(pattern: string, start: number): number | null {
  let depth = 0;
  for (let at = start; at < pattern.length; at += 1) {
    if (pattern[at] === '(') depth += 1;
    if (pattern[at] === ')') depth -= 1;
    if (pattern[at] === ')' && depth === 0) return at + 1 - start;
  }
  return null;
}
