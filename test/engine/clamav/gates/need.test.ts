// The necessary-set rule: an expression that is true implies that a gate is there, whatever matched how often.
import * as fc from 'fast-check';
import t from 'tap';
import { type Gate, needOf } from '../../../../src/engine/clamav/gates/candidates.js';
import { type Expression, parseExpression } from '../../../../src/engine/clamav/gates/expression.js';
import { parseSignature } from '../../../../src/engine/clamav/gates/signature.js';

interface Value {
  readonly holds: boolean;
  readonly count: number;
  readonly distinct: ReadonlySet<number>;
}

const FALSE: Value = { holds: false, count: 0, distinct: new Set() };

/** As libclamav evaluates it; `counts`: how often each subsignature matches. */
function evaluate(expression: Expression, counts: readonly number[]): Value {
  if (expression.kind === 'subsignature') {
    const count = counts[expression.index] ?? 0;
    return count > 0 ? { holds: true, count, distinct: new Set([expression.index]) } : FALSE;
  }
  if (expression.kind === 'count') return evaluateCount(expression, counts);
  const values = expression.of.map((part) => evaluate(part, counts));
  const true_ = values.filter(({ holds }) => holds);
  if (true_.length === 0 || (expression.kind === 'all' && true_.length < values.length)) return FALSE;
  return {
    holds: true,
    count: true_.reduce((sum, { count }) => sum + count, 0),
    distinct: new Set(true_.flatMap(({ distinct }) => [...distinct])),
  };
}

function evaluateCount(expression: Expression & { kind: 'count' }, counts: readonly number[]): Value {
  const { of, comparison, count: wanted } = expression;
  const inner = evaluate(of, counts);
  const compared = { '=': inner.count === wanted, '>': inner.count > wanted, '<': inner.count < wanted };
  if (!compared[comparison] || inner.distinct.size < expression.distinct) return FALSE;
  // Which ones of a counted block matched is not known outside of it.
  return { holds: true, count: inner.count, distinct: of.kind === 'subsignature' ? inner.distinct : new Set() };
}

function textOf(expression: Expression): string {
  if (expression.kind === 'subsignature') return String(expression.index);
  if (expression.kind === 'count') {
    const { of, comparison, count, distinct } = expression;
    const number = distinct > 0 ? `${count},${distinct}` : String(count);
    return `${of.kind === 'subsignature' ? textOf(of) : `(${textOf(of)})`}${comparison}${number}`;
  }
  const operator = expression.kind === 'all' ? '&' : '|';
  return expression.of
    .map((part) => (part.kind === 'all' || part.kind === 'any' ? `(${textOf(part)})` : textOf(part)))
    .join(operator);
}

const SUBSIGNATURES = 8;
const index = fc.integer({ min: 0, max: SUBSIGNATURES - 1 });
const comparison = fc.constantFrom('=', '>', '<');
const subsignature: fc.Arbitrary<Expression> = index.map((number) => ({ kind: 'subsignature', index: number }));

const { expression } = fc.letrec<{ expression: Expression; block: Expression }>((tie) => ({
  block: fc.record({
    kind: fc.constantFrom('all', 'any'),
    of: fc.array(tie('expression'), { minLength: 2, maxLength: 4 }),
  }),
  expression: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    subsignature,
    fc.record({ kind: fc.constant('count'), of: subsignature, comparison, count: fc.nat(3), distinct: fc.constant(0) }),
    tie('block'),
    fc.record({ kind: fc.constant('count'), of: tie('block'), comparison, count: fc.nat(4), distinct: fc.nat(2) }),
  ),
}));

/** Subsignature `number` has bytes of its own, where it has any that a gate can be made of. */
function bytesOf(number: number): string {
  return `a${number}b${number}c${number}d${number}e${number}f${number}`;
}

type Part = { readonly kind: 'bytes' | 'short' } | { readonly kind: 'pcre' | 'compare'; readonly on: number };

const part: fc.Arbitrary<Part> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Part>({ kind: 'bytes' }) },
  { weight: 1, arbitrary: fc.constant<Part>({ kind: 'short' }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('pcre', 'compare'), on: index }) },
);

function subsignatureText(one: Part, number: number): string {
  if (!('on' in one)) return one.kind === 'bytes' ? `${bytesOf(number)}??00` : '4142';
  return one.kind === 'pcre' ? `${one.on}/x;y/` : `${one.on}(>>4#he4#=1)`;
}

t.test('an expression that is true implies a gate', async (t) => {
  let withGates = 0;
  let withSecond = 0;
  fc.assert(
    fc.property(
      expression,
      fc.array(part, { minLength: SUBSIGNATURES, maxLength: SUBSIGNATURES }),
      fc.array(fc.nat(3), { minLength: SUBSIGNATURES, maxLength: SUBSIGNATURES }),
      (tree, parts, wishes) => {
        // One more that is always there: libclamav wants the last subsignature to be mentioned.
        const text = `(${textOf(tree)})&${SUBSIGNATURES}`;
        const subsignatures = [...parts.map(subsignatureText), '4142'];
        const parsed = parseSignature(`Test.A;Engine:81-255,Target:0;${text};${subsignatures.join(';')}`);
        if (!parsed.understood) throw new Error(`${text}: ${parsed.reason}`);
        // What looks at other subsignatures matches only where they do.
        const counts = [...wishes, 1];
        for (let round = 0; round < SUBSIGNATURES; round += 1) {
          for (const [number, one] of parts.entries()) if ('on' in one && counts[one.on] === 0) counts[number] = 0;
        }
        const first = needOf(parsed.signature, () => 1);
        if (first === null || !evaluate(tree, counts).holds) return;
        withGates += 1;
        const isTaken = (gate: Gate): boolean => first.gates.some(({ pattern }) => gate.pattern.startsWith(pattern));
        const second = needOf(parsed.signature, () => 1, { isTaken });
        if (second !== null) withSecond += 1;
        const hit = ({ pattern }: Gate): boolean =>
          counts.some((count, number) => count > 0 && pattern === bytesOf(number));
        for (const need of [first, second]) {
          if (need === null || need.gates.some(hit)) continue;
          throw new Error(`${text} is true for ${counts}, gates are ${JSON.stringify(need.gates)}`);
        }
      },
    ),
    { numRuns: 20_000 },
  );
  t.ok(withGates > 1_000 && withSecond > 100, 'often enough there was something to see');
});

t.test('what is written is what is read', async () => {
  fc.assert(
    fc.property(
      expression,
      fc.array(fc.nat(3), { minLength: SUBSIGNATURES, maxLength: SUBSIGNATURES }),
      (tree, counts) => {
        const parsed = parseExpression(textOf(tree));
        if (parsed === null) throw new Error(`${textOf(tree)} is not understood`);
        if (evaluate(tree, counts).holds !== evaluate(parsed, counts).holds) throw new Error(textOf(tree));
      },
    ),
    { numRuns: 5_000 },
  );
});

t.test('expressions that leave a doubt are not understood', async (t) => {
  for (const text of [
    '0&1|2',
    '(0|1&2)',
    '0=2,&1',
    '(0&1',
    '0)',
    '',
    '0&',
    '&0',
    '8==9',
    '0>',
    '64',
    '0 & 1',
    '(0)(1)',
  ]) {
    t.equal(parseExpression(text), null, text);
  }
});

/** The gates, each as target, offset and pattern; null: none. */
function gatesOf(rest: string): string[] | null {
  const parsed = parseSignature(`Test.A;Engine:81-255,${rest}`);
  if (!parsed.understood) throw new Error(`${rest}: ${parsed.reason}`);
  const need = needOf(parsed.signature, ({ pattern }) => 1 / pattern.length);
  return need?.gates.map(({ target, offset, pattern }) => `${target}:${offset}:${pattern}`) ?? null;
}

t.test('of a pattern, the longest run of bytes is the gate', async (t) => {
  t.same(gatesOf('Target:1;0;414243444546??4748494a4b4c4d{2-4}4a'), ['1:*:4748494a4b4c4d']);
  t.same(gatesOf('Target:1;0;EP+0:4142434445??46474849'), ['1:EP+0:4142434445'], 'its place is known');
  t.same(gatesOf('Target:1;0;EP+0:41??454647484950'), ['1:*:454647484950'], 'its place is not known');
  t.same(gatesOf('Target:1;0;EP+0,9:4142434445'), null, 'nor is it within a range');
  t.same(gatesOf('Target:1;0;SE1:4142434445'), null, 'or in a whole section');
  t.same(gatesOf('Target:0;0;414243444546(46474849|4a4b4c4d4e)4f'), ['0:*:414243444546'], 'nothing out of these');
  t.same(gatesOf('Target:0;0;4142!(43)4445(B)46474849505152(L)'), ['0:*:46474849505152']);
  t.same(gatesOf('Target:0;0;*:414243444546::f'), ['0:*:414243444546']);
  t.same(gatesOf('Target:0;0;10:414243444546::f'), ['0:*:414243444546'], 'behind a boundary of a word');
  t.same(gatesOf('Target:0;0;4142434445::w'), ['0:*:41004200430044004500']);
  t.same(gatesOf('Target:0;0;414243444546::wa')?.sort(), ['0:*:410042004300440045004600', '0:*:414243444546']);
  t.equal(gatesOf('Target:0;0;1-2:414243444546'), null, 'a place that is not understood');
});

t.test('letters of either case are a choice, but for the first two bytes', async (t) => {
  t.same(gatesOf('Target:0;0;304142434445::i'), [
    '0:*:3061(62|42)(63|43)(64|44)(65|45)',
    '0:*:3041(62|42)(63|43)(64|44)(65|45)',
  ]);
  t.same(gatesOf('Target:0;0;303132333441::i'), ['0:*:3031323334(61|41)']);
  t.equal(gatesOf('Target:0;0;6162??636465666768::i')?.length, 4);
  t.same(gatesOf('Target:0;0;e461626364::i'), null, 'above ASCII, nobody knows');
});

t.test('where runs are short, the gate has the wildcards of the pattern', async (t) => {
  t.same(gatesOf('Target:0;0;??4142??4350(44|45){2}4647??*31323334'), ['0:*:4142??4350(44|45)????4647']);
  t.same(gatesOf('Target:1;0;EP+0:41424?4344'), ['1:EP+0:41424?4344']);
  t.equal(gatesOf('Target:0;0;41??43??45??47??49??4b'), null, 'libclamav wants two bytes side by side');
  t.equal(gatesOf('Target:0;0;4142{128}43444546'), null, 'a gap that libclamav divides a pattern at');
  t.equal(gatesOf('Target:0;0;4142??4344::w'), null);
});

t.test('what a content could be full of is no gate', async (t) => {
  t.equal(gatesOf('Target:0;0;4142434445'), null, 'it is too short');
  t.equal(gatesOf('Target:0;0;414243414243414243'), null, 'it lies over itself');
  t.equal(gatesOf('Target:0;0;4142??????4142'), null, 'it may lie over itself');
  t.equal(gatesOf('Target:0;0;414243616263::i'), null, 'so does this');
  t.same(gatesOf('Target:0;0;414243444546414243444546'), ['0:*:414243444546414243444546']);
});

t.test('where a window of a long run is noisy, those beside it are given up as well', async (t) => {
  const long = Array.from({ length: 26 }, (_, index) => (0x41 + index).toString(16)).join('');
  const parsed = parseSignature(`Test.A;Engine:81-255,Target:0;0&1;${long};303132333435`);
  if (!parsed.understood) throw new Error(parsed.reason);
  const gateWithout = (noisy: string): string | undefined =>
    needOf(parsed.signature, ({ pattern }) => (pattern === noisy ? Number.POSITIVE_INFINITY : 1 / pattern.length))
      ?.gates[0]?.pattern;
  const first = gateWithout('');
  t.equal(first, long.slice(0, 48));
  t.equal(gateWithout(first ?? ''), long.slice(4), 'the second one is beside it');
  t.equal(gateWithout(long.slice(2, 50)), '303132333435', 'all of them are beside the one in the middle');
});

/** A pattern, bytes that it matches, and whether its letters have two cases. */
const patternAndBytes = fc
  .record({
    tokens: fc.array(
      fc.oneof(
        { weight: 8, arbitrary: fc.nat(255).map((byte) => ({ text: hexOf(byte), bytes: [byte] })) },
        {
          weight: 3,
          arbitrary: fc.integer({ min: 0x61, max: 0x7a }).map((byte) => ({ text: hexOf(byte), bytes: [byte] })),
        },
        fc.nat(255).map((byte) => ({ text: '??', bytes: [byte] })),
        fc.nat(255).map((byte) => ({ text: `${hexOf(byte).slice(0, 1)}?`, bytes: [byte] })),
        fc
          .tuple(fc.nat(255), fc.nat(255))
          .map(([one, other]) => ({ text: `(${hexOf(one)}|${hexOf(other)})`, bytes: [other] })),
        fc.array(fc.nat(255), { minLength: 1, maxLength: 5 }).map((bytes) => ({ text: `{${bytes.length}}`, bytes })),
        fc.array(fc.nat(255), { maxLength: 5 }).map((bytes) => ({ text: '{-5}', bytes })),
        fc.array(fc.nat(255), { maxLength: 5 }).map((bytes) => ({ text: '*', bytes })),
      ),
      { minLength: 3, maxLength: 40 },
    ),
    turned: fc.array(fc.boolean(), { minLength: 300, maxLength: 300 }),
    isAnyCase: fc.boolean(),
    isWide: fc.boolean(),
  })
  .map(({ tokens, turned, isAnyCase, isWide }) => {
    const bytes = tokens.flatMap((token) => token.bytes);
    const cased = bytes.map((byte, at) => (isAnyCase && turned[at] === true && isLetter(byte) ? byte ^ 0x20 : byte));
    const modifiers = `${isAnyCase ? 'i' : ''}${isWide ? 'w' : ''}`;
    return {
      text: `${tokens.map(({ text }) => text).join('')}${modifiers === '' ? '' : `::${modifiers}`}`,
      bytes: isWide ? cased.flatMap((byte) => [byte, 0]) : cased,
    };
  });

function hexOf(byte: number): string {
  return byte.toString(16).padStart(2, '0');
}

function isLetter(byte: number): boolean {
  return (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a;
}

/** Whether the pattern of a gate lies in the bytes; a reference that knows nothing of cells. */
function lies(pattern: string, bytes: readonly number[]): boolean {
  const expression = pattern.replaceAll('?', '[0-9a-f]');
  const found = new RegExp(`^(..)*?${expression}`);
  return found.test(bytes.map(hexOf).join(''));
}

t.test('where a pattern matches, one of its gates lies', async (t) => {
  let withGates = 0;
  fc.assert(
    fc.property(patternAndBytes, ({ text, bytes }) => {
      const parsed = parseSignature(`Test.A;Engine:81-255,Target:0;0;${text}`);
      if (!parsed.understood) throw new Error(`${text}: ${parsed.reason}`);
      const need = needOf(parsed.signature, ({ pattern }) => 1 / pattern.length);
      if (need === null) return;
      withGates += 1;
      if (!need.gates.some(({ pattern }) => lies(pattern, bytes))) {
        throw new Error(
          `${text}: none of ${need.gates.map(({ pattern }) => pattern)} lies in ${bytes.map(hexOf).join('')}`,
        );
      }
    }),
    { numRuns: 20_000 },
  );
  t.ok(withGates > 1_000, 'often enough there was something to see');
});

t.test('what can match where nothing is there has no gate', async (t) => {
  const six = '414243444546';
  for (const logic of ['0=0', '0<3', '(0|1)=0', '(0&1)<2', '0|(1=0)']) {
    t.equal(gatesOf(`Target:0;${logic};${six}${logic.includes('1') ? `;${six}` : ''}`), null, logic);
  }
  t.same(gatesOf(`Target:0;(0=0)&1;${six};616263646566`), ['0:*:616263646566']);
  t.same(gatesOf(`Target:0;(0|1)>2;${six};616263646566`), ['0:*:414243444546', '0:*:616263646566']);
});

t.test('where several different ones must match, so many fewer gates are enough', async (t) => {
  const parts = ['616263646566', '6162636465666768', '61626364656667', '4142'].join(';');
  t.same(gatesOf(`Target:0;(0|1|2|3)>4,3;${parts}`), ['0:*:6162636465666768', '0:*:61626364656667']);
  t.equal(gatesOf(`Target:0;(0|1|2|3)>4,1;${parts}`), null, 'the one without a gate may be the one that matches');
  t.equal(gatesOf(`Target:0;(0|1|2|3)>4,5;${parts}`), null);
  t.equal(gatesOf(`Target:0;(0|1|(2&3))>4,3;${parts}`)?.length, 3, 'parts of several are not counted');
});

t.test('what is not understood is left to libclamav', async (t) => {
  const reasons = {
    'Target:1;0': 'fields',
    'Target:99;0;41424344': 'attributes',
    'Target:1,Colour:red;0;41424344': 'attributes',
    'Target:1;0&1|0;41424344;45464748': 'expression',
    'Target:1;0;41424344;45464748': 'expression',
    'Target:1;0;zz': 'understood',
    'Target:1;0;4142::q': 'subsignature',
    'Target:1;0&1;41424344;${6-7}12$': 'macro',
  };
  for (const [rest, reason] of Object.entries(reasons)) {
    const parsed = parseSignature(`Test.A;Engine:81-255,${rest}`);
    t.equal(parsed.understood ? 'understood' : parsed.reason, reason, rest);
  }
  t.equal(gatesOf('Target:1;0;41424344zz'), null, 'nor is a pattern with other characters');
});
