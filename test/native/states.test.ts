// What a matcher keeps of a layer is what libclamav makes of it, whatever the numbers of signatures are.
import { createRequire } from 'node:module';
import * as fc from 'fast-check';
import t from 'tap';
import { faultAddonPath } from '../fixtures/faults.js';
import { bodySignature, databaseFolder, load } from './engine.js';

interface Addon {
  hasSameState(parts: number, logical: number, offsets: number, tracked: number): boolean;
}

const { hasSameState }: Addon = createRequire(import.meta.url)(faultAddonPath);

t.test('whatever the numbers are', async (t) => {
  // libclamav is initialised with the first engine.
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') })]);
  fc.assert(
    fc.property(
      fc.nat(40),
      fc.nat(1_200),
      fc.nat(40),
      fc.integer({ min: 1, max: 8 }),
      (parts, logical, offsets, tracked) => hasSameState(parts, logical, offsets, tracked),
    ),
    {
      numRuns: 500,
      examples: [
        [0, 0, 0, 8],
        [1, 1, 1, 8],
      ],
    },
  );
});
