// Ids as time: the arithmetic below the statistics.
import fc from 'fast-check';
import t from 'tap';
import { v7 as uuidv7 } from 'uuid';
import { lowestIdAt, timeOfId } from '../../src/history/scan-row.js';

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
