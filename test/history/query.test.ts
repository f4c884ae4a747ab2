// Ids as time, prefixes as ranges, and donut ranges: the arithmetic below the statistics.
import fc from 'fast-check';
import t from 'tap';
import { v7 as uuidv7 } from 'uuid';
import { donutRange } from '../../src/history/query.js';
import { lowestIdAt, timeOfId } from '../../src/history/scan-row.js';
import { endOfPrefix } from '../../src/history/stats.js';

const DAY_MS = 86_400_000;

t.test('an id tells its millisecond and lies behind the lowest of it', async (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 253_402_300_799_999 }), (ms) => {
      const id = uuidv7({ msecs: ms });
      t.equal(timeOfId(id), ms);
      t.ok(lowestIdAt(ms) < id && id < lowestIdAt(ms + 1));
    }),
  );
  t.equal(lowestIdAt(-1), lowestIdAt(0));
});

t.test('the end of a prefix divides what begins with it from what does not', async (t) => {
  const text = fc
    .string({ unit: 'binary', minLength: 1, maxLength: 4 })
    .filter((one) => Buffer.from(one, 'utf8').toString('utf8') === one);
  const bytes = (one: string): Buffer => Buffer.from(one, 'utf8');
  fc.assert(
    fc.property(text, text, (prefix, other) => {
      const end = endOfPrefix(prefix);
      for (const name of [other, prefix + other, prefix]) {
        const isInRange =
          Buffer.compare(bytes(name), bytes(prefix)) >= 0 &&
          (end === null || Buffer.compare(bytes(name), bytes(end)) < 0);
        t.equal(isInRange, bytes(name).subarray(0, bytes(prefix).length).equals(bytes(prefix)));
      }
    }),
  );
  t.equal(endOfPrefix('\u{10ffff}'), null);
  t.equal(endOfPrefix('a\u{10ffff}'), 'b');
  t.equal(endOfPrefix('\ud7ff'), '\ue000');
});

t.test('a donut covers thirty days by default', async (t) => {
  const now = Date.parse('2026-03-01T23:59:59.999Z');
  const day = (text: string): number => Date.parse(`${text}T00:00:00Z`);
  t.strictSame(donutRange({}, now), { startMs: day('2026-01-31'), endMs: day('2026-03-01') });
  t.strictSame(donutRange({ endDate: day('2024-03-01') }, now), {
    startMs: day('2024-03-01') - 29 * DAY_MS,
    endMs: day('2024-03-01'),
  });
  t.strictSame(donutRange({ startDate: day('2026-03-01') }, now), {
    startMs: day('2026-03-01'),
    endMs: day('2026-03-01'),
  });
  t.equal(donutRange({ startDate: day('2026-03-02') }, now), null);
});
