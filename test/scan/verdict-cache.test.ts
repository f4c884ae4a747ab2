// The verdict cache: one engine's verdicts, never another's, and never more bytes than it may have.
import { createHash } from 'node:crypto';
import t from 'tap';
import { createVerdictCache, type LookedAt } from '../../src/scan/verdicts/known.js';

const MIB = 1024 * 1024;
const clean: LookedAt = { verdict: { kind: 'clean', encrypted: false }, durationMs: 1, detectedType: 'CL_TYPE_PDF' };
const encrypted: LookedAt = { verdict: { kind: 'clean', encrypted: true }, durationMs: 0.25, detectedType: null };
const infected: LookedAt = {
  verdict: { kind: 'infected', virusName: 'Test.A' },
  durationMs: 12,
  detectedType: 'CL_TYPE_ZIP',
};

function digest(index: number): string {
  return createHash('sha256').update(`${index}`).digest('hex');
}

t.test('a verdict comes back as it was', async (t) => {
  const cache = createVerdictCache({ limitBytes: MIB });
  t.equal(cache.get(digest(0), 1), null);
  for (const [index, found] of [clean, encrypted, infected].entries()) cache.set(digest(index), 1, 'ada', found);
  t.match(
    [0, 1, 2].map((index) => cache.get(digest(index), 1)),
    [clean, encrypted, infected],
  );
  t.equal(cache.entries, 3 * 2, 'each content, and its account');
});

t.test('another engine knows nothing of it, and an old one changes nothing', async (t) => {
  const cache = createVerdictCache({ limitBytes: MIB });
  cache.set(digest(0), 1, 'ada', clean);
  t.equal(cache.get(digest(0), 2), null, 'the new engine has not looked');
  t.equal(cache.entries, 0, 'what the old one said is gone');
  cache.set(digest(0), 1, 'ada', clean);
  t.equal(cache.get(digest(0), 2), null, 'a scan by the old one that ends after the swap');
  t.equal(cache.get(digest(0), 1), null);
  cache.set(digest(0), 2, 'ada', infected);
  t.match(cache.get(digest(0), 2), infected);
});

t.test('it knows which accounts have scanned a content', async (t) => {
  const cache = createVerdictCache({ limitBytes: MIB });
  for (const account of ['ada', 'eve', 'ada', 'bob', 'eve']) cache.set(digest(0), 1, account, clean);
  const accounts = ['ada', 'eve', 'bob', 'joe'].map((account) => cache.get(digest(0), 1)?.isOf(account));
  t.strictSame(accounts, [true, true, true, false]);
  t.equal(cache.entries, 4);
  for (let index = 0; index < 20_000; index += 1) {
    cache.set(digest(0), 1, `account ${index}`, clean);
    if (cache.sizeBytes > MIB) t.fail(`${cache.sizeBytes} bytes after ${index}`);
  }
});

t.test('it stays within its bytes, and what is asked for again and again stays', async (t) => {
  const cache = createVerdictCache({ limitBytes: MIB });
  cache.set(digest(0), 1, 'ada', infected);
  for (let index = 1; index < 50_000; index += 1) {
    cache.set(digest(index), 1, 'ada', clean);
    if (index % 1000 === 0) t.match(cache.get(digest(0), 1), infected, `after ${index}`);
    if (cache.sizeBytes > MIB) t.fail(`${cache.sizeBytes} bytes after ${index}`);
  }
  t.ok(cache.sizeBytes > MIB / 2 - 1024, 'and uses them');
  t.equal(cache.get(digest(1), 1), null, 'what nobody asks for goes');
  t.match(cache.get(digest(49_999), 1), clean);
});

t.test('an entry takes no more memory than it is counted for', async (t) => {
  const count = 100_000;
  const digests = 1024 * count;
  const cache = createVerdictCache({ limitBytes: digests });
  const before = process.memoryUsage();
  for (let index = 0; index < count; index += 1) {
    const virusName = `Sluice.Test.Number-${index}.UNOFFICIAL`;
    const verdict = { kind: 'infected', virusName } as const;
    cache.set(digest(index), 1, 'ada', { verdict, durationMs: index / 7, detectedType: 'CL_TYPE_PDF' });
  }
  const after = process.memoryUsage();
  const grown = after.heapUsed - before.heapUsed + after.external - before.external;
  t.equal(cache.entries, 2 * count);
  t.comment(`${Math.round(grown / count)} bytes a content, garbage included`);
});
