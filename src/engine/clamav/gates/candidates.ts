// Gates: which can stand for a stretch of a pattern (windows of its fixed bytes, or where those are too few, the stretch with its wildcards), which tell
// nothing, which are looked for outside of libclamav, and the necessary-set rule: at least one of them hits in every content that a logical signature matches.
import type { Expression } from './expression.js';
import {
  type Cell,
  type CellRun,
  isExtended,
  type LogicalSignature,
  type Run,
  runsOf,
  type Subsignature,
  segmentsOf,
} from './signature.js';

/** A body signature. */
export interface Gate {
  readonly target: number;
  readonly offset: string;
  /** Lower-case hexadecimal digits; among them `??`, `a?` and choices among single bytes, as `(41|61)`. */
  readonly pattern: string;
}

/** At one place a gate hits once in a layer. */
const BYTES_MIN_AT_A_PLACE = 4;
/**
 * Elsewhere a content can be full of it. libclamav notes each hit down: fewer bytes than these between two hits, and hits
 * cost more than the matching of all else.
 */
const BYTES_MIN = 6;
const PERIOD_MIN = 6;
const LITERAL_BYTES_MAX = 24;
const OPEN_BYTES_MAX = 40;
/** Of one run of bytes. */
const WINDOWS_MAX = 4;
/** libclamav files a pattern under so many fixed bytes that lie side by side, and refuses patterns without. */
const STATIC_BYTES = 2;

type Body = Extract<Subsignature, { kind: 'body' }>;

/** Gates of which one hits wherever what they are made of lies. */
export type Together = readonly Gate[];

/** Windows of one run, side by side; any of them may stand for it. */
export type Windows = readonly Together[];

/**
 * For each form that a pattern is looked for in, what may stand for it, made when it is asked for. Null: the pattern is not
 * understood.
 */
export type Choice = (target: number, body: Body) => readonly (readonly (() => Windows)[])[] | null;

export const literals: Choice = (target, body) =>
  runsOf(body)?.map((runs) => runs.map((run) => () => windowsOf(target, run))) ?? null;

/** The pattern with what is open in it: where its runs of fixed bytes are too short, or too common. */
export const openForms: Choice = (target, body) => {
  const segments = segmentsOf(body);
  if (segments === null) return null;
  return [segments.map((segment) => () => openFormOf(target, segment))];
};

/** Makes what it has of each pattern once, the same gates each time: for one signature, which is asked several times. */
export function keptChoice(choice: Choice): Choice {
  const known = new Map<Body, ReturnType<Choice>>();
  return (target, body) => {
    const kept = known.get(body);
    if (kept !== undefined) return kept;
    const made = choice(target, body)?.map((groups) => groups.map(once)) ?? null;
    known.set(body, made);
    return made;
  };
}

function once(make: () => Windows): () => Windows {
  let made: Windows | null = null;
  return () => {
    made ??= make();
    return made;
  };
}

/** What the pattern begins with at the beginning of the content. */
export function beginnings(bytesMin: number, bytesMax: number): Choice {
  return (target, body) =>
    runsOf(body)?.map((runs) =>
      runs.map(({ hex, isAnyCase, offset }) => () => {
        const fixed = isAnyCase ? '' : hex.slice(0, 2 * bytesMax);
        return offset === '0' && fixed.length >= 2 * bytesMin ? [[{ target, offset, pattern: fixed }]] : [];
      }),
    ) ?? null;
}

/** The run itself, or windows of a long one: its beginning, where the offset holds, and others all over it. */
function windowsOf(target: number, { hex, isAnyCase, offset }: Run): Windows {
  const bytes = hex.length / 2;
  const length = Math.min(bytes, LITERAL_BYTES_MAX);
  const last = bytes - length;
  const step = Math.max(1, Math.ceil(last / WINDOWS_MAX));
  const windows: Together[] = [];
  for (let start = 0; start <= last; start += step) {
    const window = hex.slice(2 * start, 2 * (start + length));
    const place = start === 0 ? offset : '*';
    if (!isUsable(window, place)) continue;
    windows.push(isAnyCase ? inEachCase(target, place, window) : [{ target, offset: place, pattern: window }]);
  }
  return windows;
}

function isUsable(hex: string, offset: string): boolean {
  if (isOnePlace(offset)) return hex.length >= 2 * BYTES_MIN_AT_A_PLACE;
  if (hex.length < 2 * BYTES_MIN) return false;
  for (let shift = 1; shift < PERIOD_MIN; shift += 1) {
    // Nearly always the first digit differs.
    if (hex.charCodeAt(2 * shift) === hex.charCodeAt(0) && hex.startsWith(hex.slice(2 * shift))) return false;
  }
  return true;
}

/** `SE1` is all of a section. */
const isOnePlace = (offset: string): boolean => offset !== '*' && !offset.includes(',') && !offset.startsWith('SE');

function inEachCase(target: number, offset: string, hex: string): Together {
  const cells = (hex.match(/../g) ?? []).map(
    (pair): Cell => ({ kind: isSmallLetter(pair) ? 'letter' : 'byte', hex: pair }),
  );
  return gatesOf(target, offset, cells);
}

const isSmallLetter = (pair: string): boolean => pair >= '61' && pair <= '7a';

function openFormOf(target: number, { cells, offset }: CellRun): Windows {
  if (!cells.some(({ kind }) => kind === 'open')) return [];
  const first = cells.slice(0, OPEN_BYTES_MAX);
  const used = first.slice(0, first.findLastIndex(({ kind }) => kind !== 'open') + 1);
  const closed = used.filter(({ kind }) => kind !== 'open').length;
  if (closed < (isOnePlace(offset) ? BYTES_MIN_AT_A_PLACE : BYTES_MIN)) return [];
  if (!isOnePlace(offset) && periodOf(used) < PERIOD_MIN) return [];
  const isStatic = used.slice(0, STATIC_BYTES).every(({ kind }) => kind !== 'open') || hasStaticBytes(used);
  return isStatic ? [gatesOf(target, offset, used)] : [];
}

/** Letters that the pattern begins with take a gate for each case. */
function gatesOf(target: number, offset: string, cells: readonly Cell[]): Together {
  let heads = [''];
  for (const cell of cells.slice(0, STATIC_BYTES)) {
    heads = heads.flatMap((text) => casesOf(cell).map((one) => text + one));
  }
  const rest = cells.slice(STATIC_BYTES).map(textOf).join('');
  return heads.map((text) => ({ target, offset, pattern: text + rest }));
}

function hasStaticBytes(cells: readonly Cell[]): boolean {
  return cells.some((_, at) => {
    const together = cells.slice(at, at + STATIC_BYTES);
    return together.length === STATIC_BYTES && together.every(({ kind }) => kind === 'byte');
  });
}

const CASE_BIT = 0x20;

function casesOf(cell: Cell): string[] {
  if (cell.kind !== 'letter') return [textOf(cell)];
  return [cell.hex, (Number.parseInt(cell.hex, 16) ^ CASE_BIT).toString(16)];
}

function textOf(cell: Cell): string {
  if (cell.kind === 'open') return cell.text;
  return cell.kind === 'byte' ? cell.hex : `(${casesOf(cell).join('|')})`;
}

/** After how many bytes the cells may lie there again, over themselves. */
function periodOf(cells: readonly Cell[]): number {
  for (let shift = 1; shift < cells.length; shift += 1) {
    if (cells.slice(shift).every((cell, at) => agree(cell, cells[at]))) return shift;
  }
  return cells.length;
}

function agree(one: Cell, other: Cell | undefined): boolean {
  if (other === undefined || one.kind === 'open' || other.kind === 'open') return true;
  const small = (hex: string): number => Number.parseInt(hex, 16) | CASE_BIT;
  const isLoose = one.kind === 'letter' || other.kind === 'letter';
  return one.hex === other.hex || (isLoose && small(one.hex) === small(other.hex));
}

const DIFFERENT_BYTES_MIN = 3;

/** Bytes that tell nothing: a gate of them would hit in vain, whatever it is for. Runs of one byte, of two in turn, bytes that count, and relocations are in everything, but not at every place. */
export function isEverywhere(offset: string, bytes: Uint8Array): boolean {
  return offset === '*' && (countDifferent(bytes) < DIFFERENT_BYTES_MIN || isEven(bytes) || isRelocations(bytes));
}

/** Which bytes were seen, by the number of the look that has seen them last: nothing has to be cleared. */
const seen = new Uint32Array(256);
let look = 0;

export function countDifferent(bytes: Uint8Array): number {
  look += 1;
  let different = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (seen[byte] !== look) different += 1;
    seen[byte] = look;
  }
  return different;
}

/** Bytes that are the same distance from each other. */
function isEven(bytes: Uint8Array): boolean {
  const step = ((bytes[1] ?? 0) - (bytes[0] ?? 0)) & 0xff;
  for (let at = 2; at < bytes.length; at += 1)
    if ((((bytes[at] ?? 0) - (bytes[at - 1] ?? 0)) & 0xff) !== step) return false;
  return true;
}

const RELOCATIONS_MIN = 4;
/** IMAGE_REL_BASED_HIGHLOW, the only type in programs of 32 bits. */
const RELOCATION_TYPE = 3;

/**
 * Where addresses lie in a page of a program for Windows, two bytes for each: the type in the highest four bits, then a place behind the one before.
 * A large program has thousands, and compilers put addresses side by side: the same rows come back in all of them.
 */
const isRelocations = (bytes: Uint8Array): boolean => areRelocations(bytes, 0) || areRelocations(bytes, 1);

function areRelocations(bytes: Uint8Array, start: number): boolean {
  let count = 0;
  let before = -1;
  for (let at = start; at + 1 < bytes.length; at += 2) {
    const entry = ((bytes[at + 1] ?? 0) << 8) | (bytes[at] ?? 0);
    if (entry >> 12 !== RELOCATION_TYPE || entry <= before) return false;
    before = entry;
    count += 1;
  }
  return count >= RELOCATIONS_MIN;
}

/** Kinds of files that have many plain gates: programs for Windows, and compound files. Where there are a few hundred libclamav's matcher takes no longer for them. */
const MANY_GATES = [1, 2];
/** All kinds have as many as there are extended signatures. */
const EXTENDED_MANY = 2_000;
const OF_ANY = /^[^:]+:0:/;

/** Where plain gates cost next to nothing. Extended signatures are gated for these alone: elsewhere the gate would cost what its signature does. */
export function targetsOfLiterals(lines: readonly string[]): ReadonlySet<number> {
  const ofAny = lines.reduce((count, line) => count + Number(isExtended(line) && OF_ANY.test(line)), 0);
  return new Set(ofAny < EXTENDED_MANY ? MANY_GATES : [0, ...MANY_GATES]);
}

/** Of 6 to 64 bytes. */
const PLAIN = /^(?:[0-9a-f]{2}){6,64}$/;

/**
 * Those that are looked for outside of libclamav's matcher (native/literals.h), by their indexes; `targets`: the kinds of files where there are many. The longest of each kind
 * stays: libclamav cuts content into pieces that overlap by the length of its longest signature.
 */
export function literalsAmong(gates: readonly Gate[], targets: Iterable<number>): ReadonlySet<number> {
  const found = new Set<number>();
  for (const target of targets) {
    const ours = [...gates.entries()].filter(
      ([, gate]) => gate.target === target && gate.offset === '*' && PLAIN.test(gate.pattern),
    );
    ours.sort(([, one], [, other]) => other.pattern.length - one.pattern.length);
    for (const [index] of ours.slice(1)) found.add(index);
  }
  return found;
}

/** Says what a hit of a gate would cost, by how likely it is in clean content; Infinity: not to be used. */
export type Cost = (gate: Gate) => number;

/** Null: there is none. `cost`: of all its gates together, or of what is common beside one, if that is more. */
export type Need = { readonly gates: readonly Gate[]; readonly cost: number } | null;

/** Gates of one signature: more than a literal of each subsignature that it can have. */
const GATES_MAX = 128;

/** The first choice that has gates for a pattern is the one. */
const CHOICES: readonly Choice[] = [literals, openForms];

/** Rare enough: nothing better is looked for. */
const RARE = 2 ** -26;
/** What costs more is common. It seldom ends where a window ends, so what lies beside it is common as well. */
const COMMON = 0.001;

type CountExpression = Extract<Expression, { kind: 'count' }>;

/** Of subsignatures alone, all different; null: there is something else. */
function singleIndexes(parts: readonly Expression[]): readonly number[] | null {
  const indexes = parts.flatMap((part) => (part.kind === 'subsignature' ? [part.index] : []));
  return indexes.length === parts.length && new Set(indexes).size === parts.length ? indexes : null;
}

export interface NeedOptions {
  readonly choices?: readonly Choice[];
  /** Gates that can't be of it. */
  readonly isTaken?: (gate: Gate) => boolean;
}

export function needOf(signature: LogicalSignature, cost: Cost, options: NeedOptions = {}): Need {
  const { choices = CHOICES, isTaken = (): boolean => false } = options;
  const bySubsignature = new Map<number, Need>();
  const asked = new Set<number>();

  function ofSubsignature(index: number): Need {
    const known = bySubsignature.get(index);
    if (known !== undefined) return known;
    // A trigger that depends on itself.
    if (asked.has(index)) return null;
    asked.add(index);
    const need = computed(index);
    asked.delete(index);
    bySubsignature.set(index, need);
    return need;
  }

  function computed(index: number): Need {
    const subsignature = signature.subsignatures[index];
    if (subsignature?.kind === 'body') {
      for (const choice of choices) {
        const forms = choice(signature.target, subsignature);
        if (forms === null) return null;
        const found = together(forms.map((groups) => best(groups, (windows) => cheapest(windows(), cost, isTaken))));
        if (found !== null) return found;
      }
      return null;
    }
    if (subsignature?.kind === 'pcre') return subsignature.trigger === null ? null : need(subsignature.trigger);
    if (subsignature?.kind === 'byte-compare') return ofSubsignature(subsignature.subsignature);
    return null;
  }

  /** Asked for a subsignature, it says what is there whenever that one matches at least once. */
  function need(expression: Expression): Need {
    if (expression.kind === 'subsignature') return ofSubsignature(expression.index);
    if (expression.kind === 'all') return best(expression.of, need);
    if (expression.kind === 'any') return together(expression.of.map(need));
    // `X=0` and `X<n` are true where nothing matches.
    const isAtLeastOnce = expression.comparison === '>' || (expression.comparison === '=' && expression.count > 0);
    return isAtLeastOnce ? ofCounted(expression) : null;
  }

  /** Where three different ones of five must match, one of any three of them does: the rarest three. */
  function ofCounted({ of, distinct }: CountExpression): Need {
    const indexes = of.kind === 'any' ? singleIndexes(of.of) : null;
    if (indexes === null || distinct < 2) return need(of);
    const found = indexes.map(ofSubsignature).filter((one) => one !== null);
    const enough = indexes.length - distinct + 1;
    // More than there are can't match; libclamav decides what that means.
    if (enough < 1 || found.length < enough) return null;
    return together(found.sort((a, b) => a.cost - b.cost).slice(0, enough));
  }

  return need(signature.expression);
}

function best<T>(parts: readonly T[], priced: (part: T) => Need): Need {
  let cheapest: Need = null;
  for (const part of parts) {
    const found = priced(part);
    if (found === null || (cheapest !== null && found.cost >= cheapest.cost)) continue;
    cheapest = found;
    if (found.cost <= RARE) break;
  }
  return cheapest;
}

function together(needs: readonly Need[]): Need {
  const [first] = needs;
  if (needs.length === 1) return first ?? null;
  const gates = new Map<string, Gate>();
  let cost = 0;
  for (const need of needs) {
    if (need === null) return null;
    cost += need.cost;
    for (const gate of need.gates) gates.set(keyOf(gate), gate);
  }
  return gates.size === 0 || gates.size > GATES_MAX ? null : { gates: [...gates.values()], cost };
}

/** What tells a gate from all others, from one load to the next. */
export const keyOf = ({ target, offset, pattern }: Gate): string => `${target}:${offset}:${pattern}`;

export function gateOf(key: string): Gate {
  const [target, offset = '', pattern = ''] = key.split(':', 3);
  return { target: Number(target), offset, pattern };
}

function cheapest(windows: Windows, cost: Cost, isTaken: (gate: Gate) => boolean): Need {
  const costs = windows.map((gates) => gates.reduce((sum, gate) => sum + cost(gate), 0));
  let found: Need = null;
  for (const [index, gates] of windows.entries()) {
    const beside = [costs[index - 1] ?? 0, costs[index + 1] ?? 0].filter((one) => one > COMMON);
    const price = Math.max(costs[index] ?? 0, ...beside);
    if (price === Number.POSITIVE_INFINITY || (found !== null && price >= found.cost)) continue;
    if (!gates.some(isTaken)) found = { gates, cost: price };
  }
  return found;
}
