// The expression of a logical signature: which of its subsignatures must match, and how often (ClamAV's manual, "Logical signatures").

export type Expression =
  | { readonly kind: 'subsignature'; readonly index: number }
  /** Of two or more. */
  | { readonly kind: 'all'; readonly of: readonly Expression[] }
  | { readonly kind: 'any'; readonly of: readonly Expression[] }
  /**
   * `X>2`, `X=0`, `X<5`: how often a subsignature matches, or those of a block together; `distinct`: of a block, so many
   * different ones at least.
   */
  | {
      readonly kind: 'count';
      readonly of: Expression;
      readonly comparison: '=' | '>' | '<';
      readonly count: number;
      readonly distinct: number;
    };

/** libclamav counts matches in 64 bits. */
const SUBSIGNATURES_MAX = 64;
/** Deeper than any that was ever written; libclamav descends once for each operator. */
const DEPTH_MAX = 100;
const NUMBER = /\d{1,9}/y;

/**
 * Null for everything that is not understood without doubt. `0&1|2` is among it: libclamav's reading depends on where in the
 * expression it stands.
 */
export function parseExpression(text: string): Expression | null {
  let at = 0;

  function number(): number | null {
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(text);
    if (found === null) return null;
    at += found[0].length;
    return Number(found[0]);
  }

  function counted(of: Expression): Expression | null {
    const comparison = text[at];
    if (comparison !== '=' && comparison !== '>' && comparison !== '<') return of;
    at += 1;
    const count = number();
    if (count === null) return null;
    if (text[at] !== ',') return { kind: 'count', of, comparison, count, distinct: 0 };
    at += 1;
    const distinct = number();
    // Of a single subsignature libclamav doesn't read the second number.
    const isBlock = of.kind !== 'subsignature';
    return distinct === null ? null : { kind: 'count', of, comparison, count, distinct: isBlock ? distinct : 0 };
  }

  function term(depth: number): Expression | null {
    if (text[at] !== '(') {
      const index = number();
      return index === null || index >= SUBSIGNATURES_MAX ? null : counted({ kind: 'subsignature', index });
    }
    at += 1;
    const inner = level(depth + 1);
    if (inner === null || text[at] !== ')') return null;
    at += 1;
    return counted(inner);
  }

  function level(depth: number): Expression | null {
    if (depth > DEPTH_MAX) return null;
    const first = term(depth);
    if (first === null) return null;
    const of = [first];
    const operator = text[at];
    if (operator !== '&' && operator !== '|') return first;
    while (text[at] === operator) {
      at += 1;
      const next = term(depth);
      if (next === null) return null;
      of.push(next);
    }
    if (text[at] === '&' || text[at] === '|') return null;
    return { kind: operator === '&' ? 'all' : 'any', of };
  }

  const expression = level(0);
  return at === text.length ? expression : null;
}

/** Every subsignature that it mentions. */
export function mentioned(expression: Expression): number[] {
  if (expression.kind === 'subsignature') return [expression.index];
  return expression.kind === 'count' ? mentioned(expression.of) : expression.of.flatMap(mentioned);
}
