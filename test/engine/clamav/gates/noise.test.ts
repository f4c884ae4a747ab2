// Which gates are given up: those that hit for nothing, and often enough that it pays.
import t from 'tap';
import { gateOf } from '../../../../src/engine/clamav/gates/candidates.js';
import { noiseShare, noisyGates } from '../../../../src/engine/clamav/gates/noise.js';
import { readPrior } from '../../../../src/engine/clamav/gates/prior.js';

type Hits = readonly (readonly [gate: number, times: number])[];

function statistics(scans: number, inVain: number, noisy: Hits) {
  return { scans, secondLooks: inVain, lookers: inVain, inVain, noisy };
}

const ANY = { leastTimes: 1, most: 100 };

t.test('those that hit most often come first, and no more than are asked for', async (t) => {
  const hits: Hits = [
    [7, 2],
    [8, 9],
    [9, 3],
  ];
  const of = (leastTimes: number, most: number) => noisyGates(statistics(100, 10, hits), { leastTimes, most });
  t.same(of(1, 100), [hits[1], hits[2], hits[0]]);
  t.same(of(3, 100), [hits[1], hits[2]]);
  t.same(of(1, 1), [hits[1]]);
});

t.test('what is rare costs less than a signature without a gate', async (t) => {
  const hits: Hits = [
    [1, 10],
    [2, 9],
  ];
  t.same(noisyGates(statistics(20_000, 19, hits), ANY), [[1, 10]], 'one of 2,000 scans');
  t.same(noisyGates(statistics(20_002, 19, hits), ANY), []);
});

t.test('the share of the scans that a load would spare a second look', async (t) => {
  const hits: Hits = [
    [1, 30],
    [2, 20],
    [3, 1],
  ];
  t.equal(noiseShare(statistics(200, 60, hits), { leastTimes: 2, most: 100 }), 0.25);
  t.equal(noiseShare(statistics(200, 40, hits), { leastTimes: 2, most: 100 }), 0.2, 'several may hit in one content');
  t.equal(noiseShare(statistics(0, 0, []), ANY), 0);
});

t.test(
  'windows tell of gates anywhere, and neither of those at the beginning nor of those with few bytes',
  async (t) => {
    const { decidingWindows } = await readPrior();
    t.equal(decidingWindows(gateOf('0:*:586b3223715a392176'))?.length, 4);
    for (const key of ['0:0:586b3223715a392176', '0:EP+0:586b3223', '0:*:000000000000ff']) {
      t.equal(decidingWindows(gateOf(key)), null, key);
    }
  },
);
