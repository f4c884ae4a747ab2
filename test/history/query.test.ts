// Ids as time, and donut ranges: the arithmetic below the statistics.
import fc from 'fast-check';
import t from 'tap';
import { v7 as uuidv7 } from 'uuid';
import { donutRange } from '../../src/history/query.js';
import { lowestIdAt, timeOfId } from '../../src/history/scan-row.js';

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
