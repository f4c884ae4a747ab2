// The necessary-set rule: gates of which at least one hits in every content that a logical signature matches.
import { type Choice, type Gate, literals, openForms, type Windows } from './candidates.js';
import type { Expression, LogicalSignature } from './signature.js';

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

type Counted = Extract<Expression, { kind: 'count' }>;

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
  function ofCounted({ of, distinct }: Counted): Need {
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
export function keyOf({ target, offset, pattern }: Gate): string {
  return `${target}:${offset}:${pattern}`;
}

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
