// The short form of the fuzzer (main.ts is the long one), and that it finds what is there to be found.
import t from 'tap';
import { countModules } from './coverage.js';
import { fuzz } from './fuzz.js';
import type { Target } from './targets.js';

countModules();
const { targets } = await import('./targets.js');
const { readBoundary } = await import('../../src/scan/http/multipart-parser.js');

for (const target of targets) {
  t.test(`${target.name}: nothing but what is documented is thrown`, async (t) => {
    const { runs, findings } = fuzz(target, { runs: 500, seconds: 60, findingsMax: 5, seed: 11, corpus: null });
    t.strictSame(
      findings.map(({ input, problem }) => `${problem}: ${JSON.stringify(input.toString('latin1'))}`),
      [],
    );
    t.ok(runs > target.seeds.length, `${runs} inputs`);
  });
}

t.test('what hides behind several comparisons is found, by what they cover', async (t) => {
  const hidden: Target = {
    name: 'hidden',
    seeds: ['multipart/form-data; x=a'],
    words: ['boundary', '"'],
    run(input) {
      let boundary: string | null = null;
      try {
        boundary = readBoundary(input.toString('latin1'));
      } catch {
        return; // Refused, as documented.
      }
      if (boundary !== null) throw new Error('found');
    },
  };
  const { findings, kept } = fuzz(hidden, { runs: 200_000, seconds: 600, findingsMax: 1, seed: 2, corpus: null });
  t.match(findings[0]?.problem, /^Error: found/);
  t.ok(kept > 0, 'inputs on the way to it were kept');
});
