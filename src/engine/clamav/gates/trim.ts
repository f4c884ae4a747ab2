// Cuts gates at the front, so that many begin alike, and with bytes that are rare.
import { type Gate, isUsable } from './candidates.js';
import { isEverywhere } from './common.js';

/**
 * libclamav files patterns under their first bytes, with 2 KB of memory for every two that some pattern begins with, and follows them
 * at each byte of a content: what doesn't fit into the processor's caches costs more than all comparing.
 */
const BEGINNING_BYTES = 2;
/** Fewer would be met by chance, or in other programs. */
const BYTES_LEFT_MIN = 10;
/** Later ones change next to nothing. */
const ROUNDS = 4;

/** The gates in their order. What is left of one hits wherever the whole of it lies. */
export function trimmed(gates: readonly Gate[]): readonly Gate[] {
  const forms = gates.map(formsOf);
  let chosen: readonly Gate[] = forms.flat();
  // At first all forms count, then those that were chosen: what is chosen often is chosen more often.
  for (let round = 0; round < ROUNDS; round += 1) {
    const counts = countBeginnings(chosen);
    const worthOf = (form: Gate): number =>
      Math.log2(counts.get(beginningOf(form)) ?? 0.5) - commonness(form.pattern, 0) - commonness(form.pattern, 1);
    chosen = forms.map((ofOne) => ofOne.reduce((best, form) => (worthOf(form) > worthOf(best) ? form : best)));
  }
  return chosen;
}

function countBeginnings(gates: readonly Gate[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const gate of gates) counts.set(beginningOf(gate), (counts.get(beginningOf(gate)) ?? 0) + 1);
  return counts;
}

/** The gate, and what is left of it behind each of its first bytes. */
function formsOf(gate: Gate): Gate[] {
  const { target, offset, pattern } = gate;
  if (offset !== '*' || !/^[0-9a-f]+$/.test(pattern)) return [gate];
  const forms = [gate];
  for (let start = 1; pattern.length / 2 - start >= BYTES_LEFT_MIN; start += 1) {
    const rest = { target, offset, pattern: pattern.slice(2 * start) };
    if (isUsable(rest.pattern, offset) && !isEverywhere(rest, Buffer.from(rest.pattern, 'hex'))) forms.push(rest);
  }
  return forms;
}

function beginningOf({ target, pattern }: Gate): string {
  return `${target}:${pattern.slice(0, 2 * BEGINNING_BYTES)}`;
}

/** How common each byte is in programs, in steps of two thirds of a bit: counted in 11 MB of a hundred Windows programs. */
const COMMONNESS =
  'd86665447444542663335532422232136222631142342321422633214425322376446643852255225345444434133434342445425442424443547723331233235' +
  '327561147392611230121021010110222121100333010102100223234211222653542354423522333422132321221125322322174254242222433445433455a';
/** Half of what it says of a content: the memory counts too. */
const WEIGHT_PER_STEP = 1 / 3;

function commonness(pattern: string, at: number): number {
  const byte = Number.parseInt(pattern.slice(2 * at, 2 * at + 2), 16);
  return WEIGHT_PER_STEP * Number.parseInt(COMMONNESS[byte] ?? '0', 16);
}
