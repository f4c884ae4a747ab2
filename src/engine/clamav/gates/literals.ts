// Which gates are looked for outside of libclamav (native/literals.h): plain bytes anywhere, of kinds of files that have many of them.
import type { Gate } from './candidates.js';

/** Programs for Windows, and compound files. Where there are a few hundred gates libclamav's matcher takes no longer for them. */
const TARGETS = [1, 2];
/** Of 6 to 64 bytes. */
const PLAIN = /^(?:[0-9a-f]{2}){6,64}$/;

export function hasLiterals(target: number): boolean {
  return TARGETS.includes(target);
}

/** Indexes. The longest of each kind stays: libclamav cuts content into pieces that overlap by the length of its longest signature. */
export function literalsAmong(gates: readonly Gate[]): ReadonlySet<number> {
  const found = new Set<number>();
  for (const target of TARGETS) {
    const ours = [...gates.entries()].filter(
      ([, gate]) => gate.target === target && gate.offset === '*' && PLAIN.test(gate.pattern),
    );
    ours.sort(([, one], [, other]) => other.pattern.length - one.pattern.length);
    for (const [index] of ours.slice(1)) found.add(index);
  }
  return found;
}
