// Gates that are cut at the front: what is left lies wherever the whole lay, and many begin alike.
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
  ),
});
const LEFT_MIN = 10;

t.test('what is left of a gate is its end, long enough to be rare, at any place', async () => {
  fc.assert(
    fc.property(fc.array(gate, { maxLength: 40 }), (gates) => {
      const left = trimmed(gates, null);
      return (
        left.length === gates.length &&
        gates.every(({ target, offset, pattern }, index) => {
          const one = left[index];
          if (one?.target !== target || one.offset !== offset) return false;
          if (one.pattern === pattern) return true;
          const isEnd = pattern.endsWith(one.pattern) && one.pattern.length % 2 === 0;
          return isEnd && offset === '*' && !pattern.includes('?') && one.pattern.length >= 2 * LEFT_MIN;
        })
      );
    }),
    { numRuns: 500 },
  );
});

t.test('gates that can begin alike do', async (t) => {
  const gates = Array.from({ length: 50 }, (_, index) => ({
    target: 1,
    offset: '*',
    pattern: Buffer.from(`${String(index * 7919).padStart(6, '0')}Qz some literal`).toString('hex'),
  }));
  const beginnings = new Set(trimmed(gates, null).map(({ pattern }) => pattern.slice(0, 4)));
  t.same([...beginnings], [Buffer.from('Qz').toString('hex')]);
});

t.test('a gate that would lie over itself is not cut to that', async (t) => {
  const regular = 'ababababababababababab';
  const gates = [{ target: 0, offset: '*', pattern: Buffer.from(`0123456789${regular}`).toString('hex') }];
  t.ok((trimmed(gates, null)[0]?.pattern.length ?? 0) > 2 * regular.length);
});

t.test('what is left is as rare as the whole, as far as it was counted before', async (t) => {
  const rare = 'Xk2#qZ9!vW7&';
  const pattern = Buffer.from(`${rare}GetProcAddress`).toString('hex');
  const others = Array.from({ length: 50 }, (_, index) => ({
    target: 1,
    offset: '*',
    pattern: Buffer.from(`GetP${index}#qZ9!v`).toString('hex'),
  }));
  const gates = [{ target: 1, offset: '*', pattern }, ...others];
  const prior = await readPrior();
  const [left] = trimmed(gates, prior);
  const [freely] = trimmed(gates, null);
  t.equal(left === undefined ? null : prior.shareOf(left), 0);
  t.equal(
    Buffer.from(freely?.pattern ?? '', 'hex').toString(),
    'GetProcAddress',
    'without that, it begins as others do',
  );
});
