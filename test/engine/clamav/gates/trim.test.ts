// Gates that are cut at the front or opened there: they hit wherever the whole lay, and libclamav files many of them alike.
import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import t from 'tap';
import type { Gate } from '../../../../src/engine/clamav/gates/candidates.js';
import { readPrior } from '../../../../src/engine/clamav/gates/prior.js';
import { trimmed } from '../../../../src/engine/clamav/gates/trim.js';

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const literal = fc.uint8Array({ minLength: 4, maxLength: 30 }).map(hexOf);
const gate: fc.Arbitrary<Gate> = fc.record({
  target: fc.constantFrom(0, 1, 7),
  offset: fc.constantFrom('*', '*', '*', '0', 'EP+0'),
  pattern: fc.oneof(
    literal,
    literal,
    fc.tuple(literal, literal).map(([one, other]) => `${one}??${other}`),
    fc.tuple(literal, literal).map(([one, other]) => `${one}(41|61)${other}`),
  ),
});
const LEFT_MIN = 10;

/** Without choices between a byte and the same byte. */
const meaning = ({ pattern }: Gate): string => pattern.replace(/\(([0-9a-f]{2})\|\1\)/g, '$1');

/** The first of the first three fixed bytes. */
const filed = ({ pattern }: Gate): string => {
  const cells = pattern.match(/\([^)]*\)|../g) ?? [];
  const fixed = cells.map((cell) => /^[0-9a-f]{2}$/.test(cell));
  const at = cells.findIndex((_, place) => fixed[place] && fixed[place + 1] && fixed[place + 2]);
  return cells[at] ?? '';
};

t.test('what is left of a gate means its end, long enough to be rare, or all of it', async () => {
  fc.assert(
    fc.property(fc.array(gate, { maxLength: 40 }), (gates) => {
      const left = trimmed(gates, null);
      return (
        left.length === gates.length &&
        gates.every(({ target, offset, pattern }, index) => {
          const one = left[index];
          if (one?.target !== target || one.offset !== offset) return false;
          const means = meaning(one);
          if (means === pattern) return true;
          const isEnd = pattern.endsWith(means) && means.length % 2 === 0;
          return isEnd && offset === '*' && !/[?(]/.test(pattern) && means.length >= 2 * LEFT_MIN;
        })
      );
    }),
    { numRuns: 500 },
  );
});

t.test('gates that can be filed under the same first byte are', async (t) => {
  const gates = Array.from({ length: 50 }, (_, index) => {
    const other = createHash('sha256').update(String(index)).digest('hex');
    return { target: 1, offset: '*', pattern: `${other.slice(0, 12)}517a21${other.slice(12, 24)}` };
  });
  const places = gates.map((one) => ({ ...one, offset: 'EP+0' }));
  const tails = gates.map((one) => ({ ...one, pattern: `${one.pattern.slice(0, -8)}??${one.pattern.slice(-6)}` }));
  for (const some of [gates, places, tails]) {
    const firsts = new Set(trimmed(some, null).map(filed));
    t.ok(firsts.size < 5, [...firsts].join());
  }
});

t.test('a gate that would lie over itself is not cut to that', async (t) => {
  const regular = 'ababababababababababab';
  const gates = [{ target: 0, offset: '*', pattern: Buffer.from(`0123456789${regular}`).toString('hex') }];
  const [left] = trimmed(gates, null);
  t.ok(left !== undefined && meaning(left).length > 2 * regular.length);
});

t.test('what is left is as rare as the whole, as far as it was counted before', async (t) => {
  const rare = 'Xk2#qZ9!vW7&';
  const pattern = Buffer.from(`${rare}GetProcAddress`).toString('hex');
  const others = Array.from({ length: 50 }, (_, index) => ({
    target: 1,
    offset: '0',
    pattern: Buffer.from(`GetP${index}#qZ9!v`).toString('hex'),
  }));
  const gates = [{ target: 1, offset: '*', pattern }, ...others];
  const prior = await readPrior();
  const [left] = trimmed(gates, prior);
  const [freely] = trimmed(gates, null);
  t.equal(left === undefined ? null : prior.shareOf({ ...left, pattern: meaning(left) }), 0);
  t.equal(
    freely === undefined ? null : Buffer.from(meaning(freely), 'hex').toString().length < 15,
    true,
    'without that, it is cut',
  );
});
