// Numbers of logical expressions are read as the C library reads them, whatever stands there.
import { createRequire } from 'node:module';
import * as fc from 'fast-check';
import t from 'tap';
import { faultAddonPath } from '../fixtures/faults.js';

interface Addon {
  readNumbers(text: string, format: string): number[];
}

const { readNumbers }: Addon = createRequire(import.meta.url)(faultAddonPath);

/** What came of our function, and of the C library's. */
function both(text: string, format: string): { readonly ours: number[]; readonly theirs: number[] } {
  const numbers = readNumbers(text, format);
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
