// The necessary-set rule: literals of which at least one is in every content that a logical signature matches.
import type { Expression } from './expression.js';
import { type Run, runsOf } from './pattern.js';
import type { LogicalSignature } from './signature.js';

/** A body signature of fixed bytes. */
export interface Gate {
  readonly target: number;
  readonly offset: string;
  /** Lower-case hexadecimal digits. */
  readonly hex: string;
}

/** Says what a hit of a gate would cost, by how likely it is in clean content; Infinity: not to be used. */
export type Cost = (gate: Gate) => number;

/** Null: there is none. */
export type Need = readonly Gate[] | null;

const LITERAL_BYTES_MIN = 4;
const LITERAL_BYTES_MAX = 24;
/** Gates of one signature. */
const GATES_MAX = 16;
/** Of one run. */
const WINDOWS_MAX = 4;

/** Gates that may stand for a run of a pattern's bytes: any of them is there when the run is. */
type Choice = (target: number, run: Run) => readonly Gate[];

export function needOf(signature: LogicalSignature, cost: Cost, choice: Choice = windowsOf): Need {
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
      const { pattern, offset, modifiers } = subsignature;
      const forms = runsOf(pattern, offset, modifiers);
      if (forms === null) return null;
      return together(
        forms.map((runs) =>
          best(
            runs.flatMap((run) => quiet(choice(signature.target, run), cost)).map((gate) => [gate]),
            cost,
          ),
        ),
      );
    }
    if (subsignature?.kind === 'pcre') return subsignature.trigger === null ? null : need(subsignature.trigger);
    if (subsignature?.kind === 'byte-compare') return ofSubsignature(subsignature.subsignature);
    return null;
  }

  /** Asked for a subsignature, it says what is there whenever that one matches at least once. */
  function need(expression: Expression): Need {
    if (expression.kind === 'subsignature') return ofSubsignature(expression.index);
    if (expression.kind === 'all') return best(expression.of.map(need), cost);
    if (expression.kind === 'any') return together(expression.of.map(need));
    // `X=0` and `X<n` are true where nothing matches.
    const isAtLeastOnce = expression.comparison === '>' || (expression.comparison === '=' && expression.count > 0);
    return isAtLeastOnce ? need(expression.of) : null;
  }

  return need(signature.expression);
}

function best(needs: readonly Need[], cost: Cost): Need {
  let cheapest: Need = null;
  let lowest = Number.POSITIVE_INFINITY;
  for (const need of needs) {
    if (need === null) continue;
    const sum = need.reduce((total, gate) => total + cost(gate), 0);
    if (sum < lowest) {
      lowest = sum;
      cheapest = need;
    }
  }
  return cheapest;
}

function together(needs: readonly Need[]): Need {
  const gates = new Map<string, Gate>();
  for (const need of needs) {
    if (need === null) return null;
    for (const gate of need) gates.set(keyOf(gate), gate);
  }
  return gates.size === 0 || gates.size > GATES_MAX ? null : [...gates.values()];
}

/** What tells a gate from all others, from one load to the next. */
export function keyOf({ target, offset, hex }: Gate): string {
  return `${target}:${offset}:${hex}`;
}

/** Without those beside a noisy one: what is common is seldom cut as the windows are. */
function quiet(windows: readonly Gate[], cost: Cost): readonly Gate[] {
  const isNoisy = windows.map((gate) => cost(gate) === Number.POSITIVE_INFINITY);
  return windows.filter((_, index) => !isNoisy[index] && !isNoisy[index - 1] && !isNoisy[index + 1]);
}

/** The run itself, or windows of a long one: its beginning, where the offset holds, and others all over it. */
function windowsOf(target: number, { hex, offset }: Run): readonly Gate[] {
  if (hex.length < 2 * LITERAL_BYTES_MIN) return [];
  const length = Math.min(hex.length, 2 * LITERAL_BYTES_MAX);
  const last = hex.length - length;
  const step = Math.max(2, 2 * Math.ceil(last / 2 / WINDOWS_MAX));
  const gates: Gate[] = [];
  for (let start = 0; start <= last; start += step) {
    gates.push({ target, offset: start === 0 ? offset : '*', hex: hex.slice(start, start + length) });
  }
  return gates;
}
