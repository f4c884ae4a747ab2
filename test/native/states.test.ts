// What a matcher keeps of a layer is what libclamav makes of it, whatever the numbers of signatures are, and nothing where there is no memory for it.
import { createRequire } from 'node:module';
import * as fc from 'fast-check';
import t from 'tap';
import { faultAddonPath } from '../fixtures/faults.js';
import { bodySignature, databaseFolder, load } from './engine.js';

interface Addon {
  hasSameState(parts: number, logical: number, offsets: number, tracked: number): boolean;
  makeStateWithout(allocation: number, logical: number): StateMade;
}

interface StateMade {
  readonly code: number;
  readonly hasFailed: boolean;
  /** The scan will have no verdict. */
  readonly isNoted: boolean;
  /** Pieces of memory, where it could not be made. */
  readonly left: number;
}

const OUT_OF_MEMORY = 20;

const { hasSameState, makeStateWithout }: Addon = createRequire(import.meta.url)(faultAddonPath);

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

t.test('a state for which there is no memory is none, leaves none, and the scan has no verdict', (t) => {
  for (const logical of [1, 1_200]) {
    let count = 0;
    while (makeStateWithout(count, logical).hasFailed) {
      t.same(makeStateWithout(count, logical), { code: OUT_OF_MEMORY, hasFailed: true, isNoted: true, left: 0 });
      count += 1;
    }
    t.ok(count >= 8, `${count} allocations`);
    t.same(makeStateWithout(count, logical), { code: 0, hasFailed: false, isNoted: false, left: 0 });
  }
  t.end();
});
