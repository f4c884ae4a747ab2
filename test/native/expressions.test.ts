// Logical expressions are read as libclamav and the C library read them, whatever stands there.
import { createRequire } from 'node:module';
import * as fc from 'fast-check';
import t from 'tap';
import { faultAddonPath } from '../fixtures/faults.js';

interface Addon {
  readNumbers(text: string, format: string): number[];
  checkExpression(expression: string, matched: Uint32Array): number[];
}

const { readNumbers, checkExpression }: Addon = createRequire(import.meta.url)(faultAddonPath);

/** What came of our function, and of the C library's. */
function both(text: string, format: string): { readonly ours: number[]; readonly theirs: number[] } {
  const numbers = readNumbers(text, format);
  return { ours: numbers.slice(0, 3), theirs: numbers.slice(3) };
}

/** Whether it is true, how often what was counted has matched, and bits of what. */
function checked(expression: string, matched: readonly number[]) {
  const numbers = checkExpression(expression, Uint32Array.from(matched));
  return { ours: numbers.slice(0, 3), theirs: numbers.slice(3) };
}

const number = fc.oneof(fc.nat(), fc.bigInt({ min: 0n, max: 2n ** 70n }), fc.constant('000000000001')).map(String);
const other = fc.constantFrom('&', '|', '(', ')', '>', '<', '=', ',', ' ', '\t', '-', '+', 'x', '.', '%', '');
const expression = fc.array(fc.oneof(number, other), { maxLength: 8 }).map((parts) => parts.join(''));
const format = fc.constantFrom('%u', '%u', '%u', '%u,%u', '%u%c', '%x', '%3u', ' %u', '%%u', '');

t.test('whatever an expression is', async () => {
  fc.assert(
    fc.property(expression, format, (text, form) => {
      const { ours, theirs } = both(text, form);
      return ours.join() === theirs.join();
    }),
    { numRuns: 20_000 },
  );
});

t.test('up to what fits, and beyond it', async (t) => {
  const texts = [
    '0',
    '7&8',
    '000000007',
    '999999999',
    '1000000000',
    '4294967295',
    '4294967296',
    '18446744073709551616',
  ];
  for (const text of [...texts, '', ' ', ' 5', '-1', '+1', '-', '&1']) {
    const { ours, theirs } = both(text, '%u');
    t.same(ours, theirs, JSON.stringify(text));
  }
});

const { tree } = fc.letrec<{ tree: string; leaf: string; group: string }>((tie) => ({
  leaf: fc.nat(5).map(String),
  group: fc
    .tuple(fc.array(tie('tree'), { minLength: 1, maxLength: 3 }), fc.constantFrom('&', '|'))
    .map(([parts, sign]) => `(${parts.join(sign)})`),
  tree: fc
    .tuple(
      fc.oneof({ depthSize: 'small' }, tie('leaf'), tie('group')),
      fc.constantFrom('', '', '', '>0', '>2', '=0', '=1', '<1', '<3', '>1,2', '=2,1', '<2,1'),
    )
    .map((parts) => parts.join('')),
}));
const whole = fc
  .tuple(fc.array(tree, { minLength: 1, maxLength: 3 }), fc.constantFrom('&', '|'))
  .map(([parts, sign]) => parts.join(sign));
const nothing = fc.constant([0, 0, 0, 0, 0, 0]);
const something = fc.array(fc.nat(3), { minLength: 6, maxLength: 6 });

t.test('an expression is true of the same matches', async (t) => {
  let trueOfNothing = 0;
  fc.assert(
    fc.property(whole, fc.oneof(nothing, something), (text, matched) => {
      const { ours, theirs } = checked(text, matched);
      if (ours[0] === 1 && matched.every((times) => times === 0)) trueOfNothing += 1;
      return ours.join() === theirs.join();
    }),
    { numRuns: 20_000 },
  );
  t.ok(trueOfNothing > 100, `${trueOfNothing} true of nothing`);
  t.same(checked('0&1', [1, 1]).ours[0], 1);
  t.same(checked('63', [...Array.from({ length: 63 }, () => 0), 1]).ours[0], 1, 'the last place');
});
