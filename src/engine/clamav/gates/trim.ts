// Writes gates so that libclamav files them alike, and under bytes that are rare. What a gate hits stays, or grows by what is as rare.
import { type Gate, isUsable } from './candidates.js';
import { isEverywhere } from './common.js';
import { CELLS, type Prior } from './prior.js';

/**
 * libclamav files patterns under three fixed bytes, with 2 KB of memory for the first one and for every two that some pattern is filed under, and follows them
 * at each byte of a content: what doesn't fit into the processor's caches costs more than all comparing. It takes a pattern's first bytes, or if one of those
 * isn't fixed, the first three that are. So a gate is cut at the front where what is left is as rare. Elsewhere some of its first bytes are written as a choice
 * between a byte and the same byte, which hits the same and isn't fixed.
 */
const FILED_BYTES = 3;
/** Fewer would be met by chance, or in other programs. */
const BYTES_LEFT_MIN = 10;
/** Of the windows that were in no clean content, so many stay. */
const UNSEEN_ENOUGH = 4;
/** Later ones change next to nothing. */
const ROUNDS = 6;
/** Kinds of files that there are gates for: 0 to 14. */
const TARGETS = 15;

/** What a gate can be filed under. */
interface Forms {
  readonly gate: Gate;
  /** A byte or a choice each. */
  readonly cells: readonly string[];
  readonly places: readonly Place[];
}

interface Place {
  readonly at: number;
  /** A number for the target and the two bytes that lie there. */
  readonly two: number;
  /** So many bytes at the front can be cut then. */
  readonly start: number;
}

/** The gates in their order. */
export function trimmed(gates: readonly Gate[], prior: Prior | null): readonly Gate[] {
  const forms = gates.map((gate) => formsOf(gate, prior));
  const all = forms.map(({ places }) => places);
  const common = countPlaces(all, false);
  // At first all places count, then those that were chosen: what is chosen often is chosen more often.
  let chosen = all;
  for (let round = 0; round < ROUNDS; round += 1) {
    const counts = countPlaces(chosen, true);
    const priceOf = (place: Place): number => price(place, counts, common);
    chosen = all.map((places) => cheapest(places, priceOf));
  }
  return forms.map((one, index) => written(one, chosen[index]?.[0]));
}

/** How many there are, by target, by the first byte that a gate is filed under, and by the first two. */
interface Counts {
  readonly targets: Float64Array;
  readonly firsts: Float64Array;
  readonly twos: Float64Array;
}

/** Of a gate's places each counts as one, or all of them together do. */
function countPlaces(all: readonly (readonly Place[])[], isTogether: boolean): Counts {
  const targets = new Float64Array(TARGETS);
  const firsts = new Float64Array(TARGETS << 8);
  const twos = new Float64Array(TARGETS << 16);
  for (const places of all) {
    const count = isTogether ? 1 / places.length : 1;
    for (const { two } of places) {
      targets[two >> 16] = (targets[two >> 16] ?? 0) + count;
      firsts[two >> 8] = (firsts[two >> 8] ?? 0) + count;
      twos[two] = (twos[two] ?? 0) + count;
    }
  }
  return { targets, firsts, twos };
}

/** What a gate costs that is filed there: its part of the memory, and how often libclamav comes by. */
function price({ two }: Place, { firsts, twos }: Counts, common: Counts): number {
  // As often as in what gates are made of, or as each of the two bytes is there.
  const shares = PROGRAMS.has(two >> 16) ? SHARES_IN_PROGRAMS : SHARES_IN_OTHERS;
  const each = (shares[(two >> 8) & 0xff] ?? 0) * (shares[two & 0xff] ?? 0);
  const together = ((common.twos[two] ?? 0) + 1) / ((common.targets[two >> 16] ?? 0) + PAIRS);
  const visits = (together + each) / 2;
  const ofFirst = FIRST_BYTE / Math.max(firsts[two >> 8] ?? 0, COUNT_MIN) ** 2;
  return ofFirst + (TWO_BYTES + visits) / Math.max(twos[two] ?? 0, COUNT_MIN) + COMPARED * visits;
}

/** As much as what libclamav comes by at so many of its bytes. A first byte that few gates have can be done without. */
const FIRST_BYTE = 0.02;
const TWO_BYTES = 0.00002;
const COMPARED = 1;
const COUNT_MIN = 0.05;
const PAIRS = 0x10000;

/** Of equal ones the first; none, if there is none. */
function cheapest(places: readonly Place[], priceOf: (place: Place) => number): readonly Place[] {
  let best: Place | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const place of places) {
    const known = priceOf(place);
    if (known >= least) continue;
    least = known;
    best = place;
  }
  return best === undefined ? [] : [best];
}

function formsOf(gate: Gate, prior: Prior | null): Forms {
  const { target, pattern } = gate;
  const cells = pattern.match(CELLS) ?? [];
  const bytes = cells.map((cell) => (/^[0-9a-f]{2}$/.test(cell) ? Number.parseInt(cell, 16) : OPEN));
  const canBeCut = canBeCutTo(gate, bytes, prior);
  const places: Place[] = [];
  let start = 0;
  for (let at = 0; at + FILED_BYTES <= bytes.length; at += 1) {
    if (at > 0 && canBeCut(at)) start = at;
    const [one = OPEN, next = OPEN, last = OPEN] = bytes.slice(at, at + FILED_BYTES);
    // libclamav passes over two zeros.
    if (one === OPEN || next === OPEN || last === OPEN || (one === 0 && next === 0)) continue;
    places.push({ at, two: (target << 16) | (one << 8) | next, start });
  }
  return { gate, cells, places };
}

const OPEN = -1;

function canBeCutTo(gate: Gate, values: readonly number[], prior: Prior | null): (at: number) => boolean {
  const { target, offset, pattern } = gate;
  if (offset !== '*' || values.includes(OPEN)) return () => false;
  const bytes = Uint8Array.from(values);
  const share = prior?.shareOf(gate) ?? null;
  const unseen = share === 0 ? Math.min(prior?.unseenOf(gate) ?? 0, UNSEEN_ENOUGH) : 0;
  const isAsRare = (rest: Gate): boolean =>
    share === null || ((prior?.shareOf(rest) ?? 1) <= share && (prior?.unseenOf(rest) ?? 0) >= unseen);
  return (at) => {
    const hex = pattern.slice(2 * at);
    if (bytes.length - at < BYTES_LEFT_MIN || !isUsable(hex, offset) || isEverywhere(offset, bytes.subarray(at)))
      return false;
    return isAsRare({ target, offset, pattern: hex });
  };
}

function written({ gate, cells }: Forms, place: Place | undefined): Gate {
  if (place === undefined || place.at === 0) return gate;
  const { at, start } = place;
  const left = cells.slice(start).map((cell, index) => {
    const before = at - start - index;
    // No three fixed ones are left before the place, and the first one is none.
    const isOpened = before > 0 && (index === 0 || before % FILED_BYTES === 1);
    return isOpened && cell.length === 2 && !cell.includes('?') ? `(${cell}|${cell})` : cell;
  });
  return { target: gate.target, offset: gate.offset, pattern: left.join('') };
}

/** Those whose contents are mostly machine code. */
const PROGRAMS: ReadonlySet<number> = new Set([1, 6, 9]);

/** In steps of two thirds of a bit, from one of 2,048 bytes on: counted in 11 MB of a hundred Windows programs. */
const SHARES_IN_PROGRAMS = sharesOf(
  'd86665447444542663335532422232136222631142342321422633214425322376446643852255225345444434133434342445425442424443547723331233235' +
    '327561147392611230121021010110222121100333010102100223234211222653542354423522333422132321221125322322174254242222433445433455a',
);
/** Four of five are of texts and sources, the others are of any value. */
const SHARES_IN_OTHERS = sharesOf(
  '11111111137111111111111111111111b1841124442147684433332222449791142434222321323331344322211212161a698a7689559799829aa76556221211' +
    '11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111',
);

function sharesOf(steps: string): Float64Array {
  return Float64Array.from(steps, (step) => 2 ** ((2 / 3) * Number.parseInt(step, 16)) / 2_048);
}
