// A set of hashes in a few bits for each: all of them are in it, and of others about as many as the bits allow.
import t from 'tap';
import { buildSet, byteLengthOf, mixed, openSet } from '../../../../src/engine/clamav/gates/window-set.js';

/** Numbers of 39 bits, no two equal. */
function hashes(count: number, from = 0): Float64Array {
  return Float64Array.from({ length: count }, (_, at) => (at % 128) * 2 ** 32 + mixed(from + at));
}

function isIn(set: ReturnType<typeof openSet>, hash: number): boolean {
  return set.has({ first: hash % 2 ** 32, second: Math.floor(hash / 2 ** 32) });
}

for (const [size, bits] of [
  [0, 2],
  [1, 1],
  [2, 8],
  [100, 4],
  [50_000, 1],
  [50_000, 3],
] as const) {
  t.test(`${size} windows in ${bits} bits`, async (t) => {
    const windows = hashes(size);
    const stored = buildSet(windows, bits);
    const set = openSet(stored);
    t.equal(stored.bytes.length, byteLengthOf(stored));
    t.ok(
      windows.every((window) => isIn(set, window)),
      'each is in it',
    );
    const others = hashes(20_000, 1_000_000).filter((window) => isIn(set, window)).length;
    t.ok(Math.abs(others / 20_000 - 2 ** -bits) < 0.02 || size < 100, `of others ${others} of 20,000`);
    if (size > 1_000) t.ok(stored.bytes.length < (1.35 * size * bits) / 8 + 200, 'and it is small');
  });
}

t.test('two that are equal can not be told apart', async (t) => {
  t.throws(() => buildSet(Float64Array.from([7, 7]), 2), /all different/);
});
