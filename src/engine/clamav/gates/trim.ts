// Cuts gates at the front, so that many begin alike, and with bytes that are rare.
import { type Gate, isUsable } from './candidates.js';
import { isEverywhere } from './common.js';
import type { Prior } from './prior.js';

/**
 * libclamav files patterns under their first bytes, with 2 KB of memory for every two that some pattern begins with, and follows them
 * at each byte of a content: what doesn't fit into the processor's caches costs more than all comparing.
 */
const BEGINNING_BYTES = 2;
/** Fewer would be met by chance, or in other programs. */
const BYTES_LEFT_MIN = 10;
/** Of the windows that were in no clean content, so many stay. */
const UNSEEN_ENOUGH = 4;
/** Later ones change next to nothing. */
const ROUNDS = 4;
/** Kinds of files that there are gates for: 0 to 14. */
const TARGETS = 15;

/** What a gate can be cut to. */
interface Forms {
  readonly gate: Gate;
  /** Bytes that each form leaves away, the gate itself first. */
  readonly starts: readonly number[];
  /** Of each form; null where there is but the gate, and its first bytes are not fixed. */
  readonly beginnings: readonly (number | null)[];
}

/** The gates in their order. What is left of one hits wherever the whole of it lies. */
export function trimmed(gates: readonly Gate[], prior: Prior | null): readonly Gate[] {
  const forms = gates.map((gate) => formsOf(gate, prior));
  // At first all forms count, then those that were chosen: what is chosen often is chosen more often.
  let counts = countBeginnings(forms.flatMap(({ beginnings }) => beginnings));
  let chosen: readonly number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    chosen = forms.map((one) => bestOf(one, counts));
    counts = countBeginnings(forms.map(({ beginnings }, index) => beginnings[chosen[index] ?? 0] ?? null));
  }
  return forms.map(({ gate, starts }, index) => cut(gate, starts[chosen[index] ?? 0] ?? 0));
}

function cut({ target, offset, pattern }: Gate, start: number): Gate {
  return { target, offset, pattern: pattern.slice(2 * start) };
}

function countBeginnings(beginnings: readonly (number | null)[]): Uint32Array {
  const counts = new Uint32Array(TARGETS * 0x10000);
  for (const beginning of beginnings) if (beginning !== null) counts[beginning] = (counts[beginning] ?? 0) + 1;
  return counts;
}

/** Which form it is; of equal ones the first. */
function bestOf({ beginnings }: Forms, counts: Uint32Array): number {
  if (beginnings.length === 1) return 0;
  let best = 0;
  let worth = Number.NEGATIVE_INFINITY;
  for (const [form, beginning] of beginnings.entries()) {
    const known = worthOf(beginning ?? 0, counts);
    if (known <= worth) continue;
    worth = known;
    best = form;
  }
  return best;
}

function worthOf(beginning: number, counts: Uint32Array): number {
  const count = counts[beginning] ?? 0;
  const [first, second] = [(beginning >> 8) & 0xff, beginning & 0xff];
  return Math.log2(count === 0 ? 0.5 : count) - (COMMONNESS[first] ?? 0) - (COMMONNESS[second] ?? 0);
}

/** The gate, and what is left of it behind each of its first bytes. */
function formsOf(gate: Gate, prior: Prior | null): Forms {
  const { target, offset, pattern } = gate;
  const bytes = bytesOf(pattern);
  if (offset !== '*' || bytes === null) return { gate, starts: [0], beginnings: [beginningOfText(gate)] };
  const starts = [0];
  const share = prior?.shareOf(gate) ?? null;
  const unseen = share === 0 ? Math.min(prior?.unseenOf(gate) ?? 0, UNSEEN_ENOUGH) : 0;
  const isAsRare = (rest: Gate): boolean =>
    share === null || ((prior?.shareOf(rest) ?? 1) <= share && (prior?.unseenOf(rest) ?? 0) >= unseen);
  for (let start = 1; bytes.length - start >= BYTES_LEFT_MIN; start += 1) {
    const rest = bytes.subarray(start);
    if (!isUsable(pattern.slice(2 * start), offset) || isEverywhere(offset, rest)) continue;
    if (isAsRare(cut(gate, start))) starts.push(start);
  }
  return { gate, starts, beginnings: starts.map((start) => beginningOf(target, bytes, start)) };
}

/** Null: there are others than fixed ones. */
function bytesOf(pattern: string): Uint8Array | null {
  return /^[0-9a-f]+$/.test(pattern) ? Buffer.from(pattern, 'hex') : null;
}

function beginningOfText({ target, pattern }: Gate): number | null {
  const bytes = bytesOf(pattern.slice(0, 2 * BEGINNING_BYTES));
  return bytes?.length === BEGINNING_BYTES ? beginningOf(target, bytes, 0) : null;
}

/** A number for the target and the two bytes that lie there. */
function beginningOf(target: number, bytes: Uint8Array, at: number): number {
  return (target << 16) | ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
}

/** How common each byte is in programs, in steps of two thirds of a bit: counted in 11 MB of a hundred Windows programs. */
const STEPS =
  'd86665447444542663335532422232136222631142342321422633214425322376446643852255225345444434133434342445425442424443547723331233235' +
  '327561147392611230121021010110222121100333010102100223234211222653542354423522333422132321221125322322174254242222433445433455a';
/** Half of what it says of a content: the memory counts too. */
const WEIGHT_PER_STEP = 1 / 3;

/** By byte. */
const COMMONNESS = Float64Array.from(STEPS, (step) => WEIGHT_PER_STEP * Number.parseInt(step, 16));
