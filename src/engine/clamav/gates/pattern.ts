// What a body pattern surely contains: the stretches of bytes between its wildcards (ClamAV's manual, "Body-based signature content format").
import type { Subsignature } from './signature.js';

/** Bytes that lie in every content in which the pattern matches. */
export interface Run {
  /** Lower-case hexadecimal digits; where letters have two cases, of the small ones. */
  readonly hex: string;
  readonly isAnyCase: boolean;
  /** Where they lie, in the signature's words; `*`: anywhere. */
  readonly offset: string;
}

/** What a pattern says of one byte. */
export type Cell =
  /** Two lower-case hexadecimal digits. */
  | { readonly kind: 'byte'; readonly hex: string }
  /** A letter of either case; the digits of the small one. */
  | { readonly kind: 'letter'; readonly hex: string }
  /** One of several bytes, or any, in the words of a pattern: `??`, `a?`, `(aa|bb)`. */
  | { readonly kind: 'open'; readonly text: string };

/** Cells that lie side by side in every content in which the pattern matches. It neither begins nor ends with an open one. */
export interface Segment {
  readonly cells: readonly Cell[];
  /** Where they lie, in the signature's words; `*`: anywhere. */
  readonly offset: string;
}

/** As the manual has them; `$n$` is a macro group, and what else there may be is not understood. */
const OFFSET = /^(\*|(\d+|EOF-\d+|EP[+-]\d+|S(\d+|L|E\d*)\+\d+|VI)(,\d+)?|SE\d+)$/;
const HEX_DIGITS = '0123456789abcdef';
const ANYTHING = '??';
/** Longer gaps divide a pattern into parts that libclamav looks for one by one. */
const GAP_BYTES_MAX = 127;
const CASE_BIT = 0x20;

const BYTES = /(?:[0-9a-f]{2})+/y;

/** One list for each form that the pattern is looked for in; a match is a match in one of them. Null: not understood. */
export function runsOf({ pattern, offset, modifiers }: BodyPattern): readonly (readonly Run[])[] | null {
  if (!OFFSET.test(offset)) return null;
  const isAnyCase = modifiers.includes('i');
  const text = pattern.toLowerCase();
  const narrow: Run[] = [];
  for (let at = 0; at < text.length; ) {
    BYTES.lastIndex = at;
    const bytes = BYTES.exec(text)?.[0];
    const length = bytes?.length ?? (isNibbles(text.slice(at, at + 2)) ? 2 : wildcardLength(text, at));
    if (length === null) return null;
    const place = at === 0 ? placeOf({ offset, modifiers }) : '*';
    if (bytes !== undefined && isAnyCase) narrow.push(...inOneCase(bytes, place));
    else if (bytes !== undefined) narrow.push({ hex: bytes, isAnyCase, offset: place });
    at += length;
  }
  if (!modifiers.includes('w')) return [narrow];
  // UTF-16, little endian.
  const wide = narrow.map((run) => ({ ...run, hex: run.hex.replaceAll(/../g, '$&00') }));
  return modifiers.includes('a') ? [wide, narrow] : [wide];
}

type BodyPattern = Pick<Extract<Subsignature, { kind: 'body' }>, 'pattern' | 'offset' | 'modifiers'>;

/** Of whole words, a boundary may stand before the first byte. */
function placeOf({ offset, modifiers }: Pick<BodyPattern, 'offset' | 'modifiers'>): string {
  return modifiers.includes('f') ? '*' : offset;
}

/** What libclamav's tolower() changes depends on the locale above ASCII: such bytes are left out. */
function inOneCase(bytes: string, offset: string): Run[] {
  const runs: Run[] = [];
  let hex = '';
  let start = 0;
  for (let at = 0; at <= bytes.length; at += 2) {
    const byte = at < bytes.length ? byteAt(bytes, at) : null;
    if (byte !== null && byte < 0x80) {
      hex += closed(byte, true).hex;
      continue;
    }
    if (hex !== '') runs.push({ hex, isAnyCase: true, offset: start === 0 ? offset : '*' });
    hex = '';
    start = at + 2;
  }
  return runs;
}

/** The stretches of a pattern with what is open in them; none of a wide one, since libclamav's manual doesn't say how those are widened. */
export function segmentsOf({ pattern, offset, modifiers }: BodyPattern): readonly Segment[] | null {
  if (!OFFSET.test(offset)) return null;
  if (modifiers.includes('w')) return [];
  const stretches = stretchesOf(pattern.toLowerCase(), modifiers.includes('i'));
  const first = placeOf({ offset, modifiers });
  return stretches?.flatMap(({ cells, isFirst }) => trimmed(cells, isFirst ? first : '*')) ?? null;
}

function trimmed(cells: readonly Cell[], offset: string): Segment[] {
  const isClosed = ({ kind }: Cell): boolean => kind !== 'open';
  const start = cells.findIndex(isClosed);
  if (start < 0) return [];
  return [{ cells: cells.slice(start, cells.findLastIndex(isClosed) + 1), offset: start === 0 ? offset : '*' }];
}

interface Stretch {
  readonly cells: readonly Cell[];
  /** The pattern begins with it. */
  readonly isFirst: boolean;
}

function stretchesOf(pattern: string, isAnyCase: boolean): Stretch[] | null {
  const stretches: Stretch[] = [];
  let cells: Cell[] = [];
  let isFirst = true;
  for (let at = 0; at < pattern.length; ) {
    const read = cellsAt(pattern, at, isAnyCase);
    const length = read?.length ?? wildcardLength(pattern, at);
    if (length === null) return null;
    at += length;
    if (read !== null) {
      cells.push(...read.cells);
      continue;
    }
    if (cells.length > 0) stretches.push({ cells, isFirst });
    cells = [];
    isFirst = false;
  }
  if (cells.length > 0) stretches.push({ cells, isFirst });
  return stretches;
}

/** What stands here for a known number of bytes, and how many characters it takes; null: something else. */
function cellsAt(pattern: string, at: number, isAnyCase: boolean): { cells: Cell[]; length: number } | null {
  const byte = byteAt(pattern, at);
  const pair = pattern.slice(at, at + 2);
  // What libclamav's tolower() changes depends on the locale above ASCII.
  if (byte !== null && !(isAnyCase && byte >= 0x80)) return { cells: [closed(byte, isAnyCase)], length: 2 };
  const open = (text: string): Cell => ({ kind: 'open', text: isAnyCase ? ANYTHING : text });
  if (byte !== null || isNibbles(pair)) return { cells: [open(pair)], length: 2 };
  const rest = pattern.slice(at, at + LOOK_AHEAD);
  const [gap, gapBytes] = /^\{(\d{1,3})\}/.exec(rest) ?? [];
  if (gap !== undefined && Number(gapBytes) > 0 && Number(gapBytes) <= GAP_BYTES_MAX) {
    return { cells: Array.from({ length: Number(gapBytes) }, () => open(ANYTHING)), length: gap.length };
  }
  const [choice] = /^\([0-9a-f]{2}(\|[0-9a-f]{2})+\)/.exec(rest) ?? [];
  return choice === undefined ? null : { cells: [open(choice)], length: choice.length };
}

/** Characters of the longest choice among single bytes. */
const LOOK_AHEAD = 800;

function closed(byte: number, isAnyCase: boolean): Exclude<Cell, { kind: 'open' }> {
  const small = byte | CASE_BIT;
  const isLetter = small >= 0x61 && small <= 0x7a;
  const kind = isAnyCase && isLetter ? 'letter' : 'byte';
  return { kind, hex: (kind === 'letter' ? small : byte).toString(16).padStart(2, '0') };
}

function byteAt(pattern: string, at: number): number | null {
  const high = HEX_DIGITS.indexOf(pattern[at] ?? ' ');
  const low = HEX_DIGITS.indexOf(pattern[at + 1] ?? ' ');
  return high < 0 || low < 0 ? null : high * 16 + low;
}

/** `??`, `a?`, `?a`. */
function isNibbles(pair: string): boolean {
  return /^([0-9a-f]\?|\?[0-9a-f?])$/.test(pair);
}

/** Characters of what stands here instead of bytes. */
function wildcardLength(pattern: string, at: number): number | null {
  const pair = pattern.slice(at, at + 2);
  if (pair.startsWith('*')) return 1;
  const closedBy = (close: string): number | null => {
    const end = pattern.indexOf(close, at);
    return end < 0 ? null : end + 1 - at;
  };
  if (pair.startsWith('{')) return closedBy('}');
  if (pair.startsWith('[')) return closedBy(']');
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
