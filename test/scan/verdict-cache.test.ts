// The verdict cache: one engine's verdicts, never another's, and never more bytes than it may have.
import { createHash } from 'node:crypto';
import t from 'tap';
import { type CompleteVerdict, createVerdictCache } from '../../src/scan/verdict-cache.js';

const MIB = 1024 * 1024;
const clean: CompleteVerdict = { kind: 'clean', encrypted: false };
const encrypted: CompleteVerdict = { kind: 'clean', encrypted: true };
const infected: CompleteVerdict = { kind: 'infected', virusName: 'Test.A' };

function digest(index: number): string {
  return createHash('sha256').update(`${index}`).digest('hex');
}

t.test('a verdict comes back as it was', async (t) => {
  const cache = createVerdictCache({ limitBytes: MIB });
  t.equal(cache.get(digest(0), 1), null);
  for (const [index, verdict] of [clean, encrypted, infected].entries()) cache.set(digest(index), 1, verdict);
  t.strictSame(
    [0, 1, 2].map((index) => cache.get(digest(index), 1)),
    [clean, encrypted, infected],
  );
  t.equal(cache.entries, 3);
});

t.test('another engine knows nothing of it, and an old one changes nothing', async (t) => {
  const cache = createVerdictCache({ limitBytes: MIB });
  cache.set(digest(0), 1, clean);
  t.equal(cache.get(digest(0), 2), null, 'the new engine has not looked');
  t.equal(cache.entries, 0, 'what the old one said is gone');
  cache.set(digest(0), 1, clean);
  t.equal(cache.get(digest(0), 2), null, 'a scan by the old one that ends after the swap');
  t.equal(cache.get(digest(0), 1), null);
  cache.set(digest(0), 2, infected);
  t.strictSame(cache.get(digest(0), 2), infected);
});

t.test('without room it remembers nothing', async (t) => {
  const cache = createVerdictCache({ limitBytes: 0 });
  cache.set(digest(0), 1, clean);
  t.equal(cache.get(digest(0), 1), null);
});

t.test('it stays within its bytes, and what is asked for again and again stays', async (t) => {
  const cache = createVerdictCache({ limitBytes: MIB });
  cache.set(digest(0), 1, infected);
  for (let index = 1; index < 50_000; index += 1) {
    cache.set(digest(index), 1, clean);
    if (index % 1000 === 0) t.strictSame(cache.get(digest(0), 1), infected, `after ${index}`);
    if (cache.sizeBytes > MIB) t.fail(`${cache.sizeBytes} bytes after ${index}`);
  }
  t.ok(cache.sizeBytes > MIB / 2 - 1024, 'and uses them');
  t.equal(cache.get(digest(1), 1), null, 'what nobody asks for goes');
  t.strictSame(cache.get(digest(49_999), 1), clean);
});

t.test('an entry takes no more memory than it is counted for', async (t) => {
  const count = 100_000;
  const digests = 512 * count;
  const cache = createVerdictCache({ limitBytes: digests });
  const before = process.memoryUsage();
  for (let index = 0; index < count; index += 1) {
    cache.set(digest(index), 1, { kind: 'infected', virusName: `Sluice.Test.Number-${index}.UNOFFICIAL` });
  }
  const after = process.memoryUsage();
  const grown = after.heapUsed - before.heapUsed + after.external - before.external;
  t.equal(cache.entries, count);
  t.comment(`${Math.round(grown / count)} bytes an entry, garbage included`);
});
