// A logical signature, a line of an .ldb file, taken apart: attributes, subsignatures with the stretches of bytes between their wildcards, and the expression that says
// which of these must match, and how often (ClamAV's manual, "Logical signatures" and "Body-based signature content format"). An extended signature, a line of an .ndb file,
// is read as one with a single subsignature.
import { type Expression, mentioned, parseExpression } from './expression.js';

export interface LogicalSignature {
  readonly name: string;
  /** The kind of file that it is for; 0 stands for all kinds. */
  readonly target: number;
  /** The type of the layer around the one that it matches in; null: the type does not matter. */
  readonly container: string | null;
  /** Types of the layers around it, the outermost first; null: they do not matter. */
  readonly intermediates: readonly string[] | null;
  /** It changes what type a layer is parsed as, instead of being a verdict. */
  readonly isHandler: boolean;
  /** It is an extended one. */
  readonly isExtended: boolean;
  readonly expression: Expression;
  readonly subsignatures: readonly Subsignature[];
}

export type Subsignature =
  /** Bytes with wildcards. `modifiers`: of `i` (any case), `w` (UTF-16), `a` (ASCII as well), `f` (whole words). */
  | { readonly kind: 'body'; readonly offset: string; readonly pattern: string; readonly modifiers: string }
  /** Looked for only where the trigger, an expression over the other subsignatures, is true. `flags`: as libclamav has them. */
  | {
      readonly kind: 'pcre';
      readonly trigger: Expression | null;
      readonly offset: string;
      readonly regex: string;
      readonly flags: string;
    }
  /** Compares a number at a distance from where another subsignature matched. */
  | { readonly kind: 'byte-compare'; readonly subsignature: number }
  | { readonly kind: 'macro' | 'fuzzy-image' };

export type Parsed =
  | { readonly understood: true; readonly signature: LogicalSignature }
  | { readonly understood: false; readonly name: string; readonly reason: Reason };

/** Why a signature is left to stock libclamav as it is. */
export type Reason = 'too long' | 'fields' | 'attributes' | 'expression' | 'subsignature' | 'macro';

/** libclamav reads a line into 32 KiB. */
const LINE_MAX = 32_000;
const FIELDS_BEFORE_SUBSIGNATURES = 3;
/** Attribute names that libclamav knows; it skips signatures with others. */
const ATTRIBUTES = new Set(
  'Engine Target FileSize EntryPoint NumberOfSections IconGroup1 IconGroup2 Container HandlerType Intermediates'.split(
    ' ',
  ),
);
/** The last kind of target that there is a matcher for. */
const TARGET_MAX = 14;
const BYTE_COMPARE = /^(\d{1,2})\([^#]*#[^#]*#.*\)$/;
const MODIFIERS = /^[iwaf]+$/;

/** libclamav reads a line of an .ndb file into 8 KiB. */
const EXTENDED_LINE_MAX = 8_000;
/** `Name:Target:Offset:Pattern`, and two levels of the engine. */
const EXTENDED = /^([^:;]+):(\d{1,2}):([^:]+):([^:]+)(?::\d+){0,2}$/;

/** Of an .ldb file all lines have the other delimiter. */
export const isExtended = (line: string): boolean => !line.includes(';');

/** It comes first in both. */
export const nameOf = (line: string): string => line.slice(0, line.indexOf(isExtended(line) ? ':' : ';'));

function parseExtended(line: string): Parsed {
  const [, name = '', target, offset = '', pattern = ''] = EXTENDED.exec(line) ?? [];
  const left = (reason: Reason): Parsed => ({ understood: false, name, reason });
  if (line.length > EXTENDED_LINE_MAX) return left('too long');
  if (name === '' || Number(target) > TARGET_MAX) return left('fields');
  return {
    understood: true,
    signature: {
      ...{ name, target: Number(target), container: null, intermediates: null, isHandler: false, isExtended: true },
      expression: { kind: 'subsignature', index: 0 },
      subsignatures: [{ kind: 'body', offset, pattern, modifiers: '' }],
    },
  };
}

export function parseSignature(line: string): Parsed {
  if (isExtended(line)) return parseExtended(line);
  const fields = splitFields(line, ';', FIELDS_BEFORE_SUBSIGNATURES - 1);
  const [name = '', attributeText = '', expressionText = ''] = fields;
  const left = (reason: Reason): Parsed => ({ understood: false, name, reason });
  if (line.length > LINE_MAX) return left('too long');
  if (fields.length <= FIELDS_BEFORE_SUBSIGNATURES || name === '' || name.includes(' (Clam)')) return left('fields');
  const attributes = parseAttributes(attributeText);
  if (attributes === null) return left('attributes');
  const expression = parseExpression(expressionText);
  const texts = fields.slice(FIELDS_BEFORE_SUBSIGNATURES);
  if (expression === null || Math.max(...mentioned(expression)) !== texts.length - 1) return left('expression');
  const subsignatures: Subsignature[] = [];
  for (const text of texts) {
    const subsignature = parseSubsignature(text);
    if (subsignature === null) return left('subsignature');
    // A macro changes how its neighbours count.
    if (subsignature.kind === 'macro') return left('macro');
    subsignatures.push(subsignature);
  }
  return { understood: true, signature: { name, ...attributes, isExtended: false, expression, subsignatures } };
}

type Attributes = Pick<LogicalSignature, 'target' | 'container' | 'intermediates' | 'isHandler'>;

function parseAttributes(text: string): Attributes | null {
  const values = new Map<string, string>();
  for (const attribute of text.split(',')) {
    const colon = attribute.indexOf(':');
    const name = attribute.slice(0, colon);
    if (colon < 1 || !ATTRIBUTES.has(name) || values.has(name)) return null;
    values.set(name, attribute.slice(colon + 1));
  }
  const target = values.get('Target') ?? '';
  if (!/^\d{1,2}$/.test(target) || Number(target) > TARGET_MAX) return null;
  return {
    target: Number(target),
    container: values.get('Container') ?? null,
    intermediates: values.get('Intermediates')?.split('>') ?? null,
    isHandler: values.has('HandlerType'),
  };
}

/** In libclamav's order of asking: what looks like one kind is not tried as the next one. */
function parseSubsignature(text: string): Subsignature | null {
  if (text.startsWith('$')) return { kind: 'macro' };
  if (text.includes('/')) return parsePcre(text);
  if (text.includes('(') && text.indexOf('#') !== text.lastIndexOf('#')) {
    const [, subsignature] = BYTE_COMPARE.exec(text) ?? [];
    return subsignature === undefined ? null : { kind: 'byte-compare', subsignature: Number(subsignature) };
  }
  if (text.startsWith('fuzzy_img#')) return { kind: 'fuzzy-image' };
  return parseBody(text);
}

/** `Offset:Trigger/Regex/Flags`, of which the trigger is what counts here. A trigger that isn't understood may be one that is always true. */
function parsePcre(text: string): Subsignature | null {
  const parts = splitFields(text, ':', 0);
  const [first = '', second] = parts;
  if (parts.length > 2) return null;
  const rest = second ?? first;
  const begin = rest.indexOf('/');
  const end = rest.lastIndexOf('/');
  return {
    kind: 'pcre',
    trigger: parseExpression(rest.slice(0, begin)),
    offset: second === undefined ? '*' : first,
    regex: rest.slice(begin + 1, Math.max(end, begin + 1)),
    flags: rest.slice(end + 1),
  };
}

/** `Pattern`, `Offset:Pattern`, `Pattern::Modifiers` or `Offset:Pattern::Modifiers`. */
function parseBody(text: string): Subsignature | null {
  const parts = text.split(':');
  const hasModifiers = parts.length > 2;
  const modifiers = hasModifiers ? (parts.at(-1) ?? '') : '';
  if (parts.length > 4 || (hasModifiers && (parts.at(-2) !== '' || !MODIFIERS.test(modifiers)))) return null;
  const [offset, pattern] = parts.length % 2 === 0 ? parts : ['*', ...parts];
  if (offset === undefined || pattern === undefined || pattern === '') return null;
  return { kind: 'body', offset, pattern, modifiers };
}

/** As libclamav does it: behind so many fields, delimiters between two slashes that no backslash precedes are part of a field. */
function splitFields(text: string, delimiter: string, plainFields: number): string[] {
  if (!text.includes('/')) return text.split(delimiter);
  const fields: string[] = [];
  let start = 0;
  let isWithin = false;
  for (let at = 0; at <= text.length; at += 1) {
    const character = text[at];
    if (character === undefined || (character === delimiter && !isWithin)) {
      fields.push(text.slice(start, at));
      start = at + 1;
    } else if (character === '/' && fields.length >= plainFields && text[at - 1] !== '\\') {
      isWithin = !isWithin;
    }
  }
  return fields;
}

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
export interface CellRun {
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
export function segmentsOf({ pattern, offset, modifiers }: BodyPattern): readonly CellRun[] | null {
  if (!OFFSET.test(offset)) return null;
  if (modifiers.includes('w')) return [];
  const stretches = stretchesOf(pattern.toLowerCase(), modifiers.includes('i'));
  const first = placeOf({ offset, modifiers });
  return stretches?.flatMap(({ cells, isFirst }) => trimmed(cells, isFirst ? first : '*')) ?? null;
}

function trimmed(cells: readonly Cell[], offset: string): CellRun[] {
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
const isNibbles = (pair: string): boolean => /^([0-9a-f]\?|\?[0-9a-f?])$/.test(pair);

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
