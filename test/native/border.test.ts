// The border of the addon under arguments that nobody would pass: each call throws an error or does its work, and none ends
// the process. addon.ts, which would refuse most of them, is left out.
import { createRequire } from 'node:module';
import fc from 'fast-check';
import t from 'tap';
import { defaultEngineLimits } from '../../src/engine/clamav/addon.js';
import { addonPath, marksDirectory } from '../../src/paths.js';
import { anyCharacter } from '../fixtures/any-character.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { bodySignature, databaseFolder, load } from './engine.js';

/** More of them under a sanitizer: test/sanitize/run.sh. */
const RUNS = Number(process.env['BORDER_RUNS'] ?? 300);

const native: Record<string, (...args: unknown[]) => unknown> = createRequire(import.meta.url)(addonPath);

const number = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.constantFrom(0, -1, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 64, Number.NaN, Number.POSITIVE_INFINITY),
);
const bytes = fc.uint8Array({ maxLength: 200 });
const anything = fc.oneof(
  fc.anything({ withBigInt: true, withTypedArray: true, withSparseArray: true, withNullPrototype: true }),
  number,
  fc.string({ unit: anyCharacter }),
  bytes,
  fc.constantFrom(new ArrayBuffer(8), new SharedArrayBuffer(8), new Proxy({}, { get: () => fail() }), Symbol('x')),
);

function fail(): never {
  throw new RangeError('a getter that throws');
}

/** What came of a call; never a crash, which no test could report. */
async function outcome(name: string, ...args: unknown[]): Promise<'done' | Error> {
  try {
    await native[name]?.(...args);
    return 'done';
  } catch (error) {
    return error instanceof Error ? error : new Error(`not an error: ${String(error)}`);
  }
}

t.test('scanBuffer takes anything', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') })]);
  await fc.assert(
    fc.asyncProperty(anything, anything, async (content, rest) => {
      const result = await outcome('scanBuffer', content, rest);
      const isScanned = content instanceof Uint8Array && content.length > 0;
      t.equal(result === 'done', isScanned);
      if (result !== 'done') t.ok(result instanceof TypeError, result.message);
    }),
    { numRuns: RUNS },
  );
});

t.test('scanBuffer takes views of every place and size, and none whose memory is gone', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'MARK') })]);
  await fc.assert(
    fc.asyncProperty(bytes, fc.nat(50), fc.nat(50), async (content, before, after) => {
      const whole = new Uint8Array(before + content.length + after).fill(77);
      whole.set(content, before);
      const view = whole.subarray(before, before + content.length);
      t.equal((await outcome('scanBuffer', view)) === 'done', content.length > 0);
      structuredClone(whole, { transfer: [whole.buffer] });
      t.ok((await outcome('scanBuffer', view)) instanceof TypeError, 'a detached view');
    }),
    { numRuns: RUNS },
  );
});

t.test('the other functions take anything', async (t) => {
  await fc.assert(
    fc.asyncProperty(anything, anything, async (first, second) => {
      for (const name of ['loadEngine', 'serveEngine', 'discardEngine', 'engineInfo', 'tryConfinement']) {
        const result = await outcome(name, first, second);
        t.ok(result === 'done' || result.message !== '', name);
      }
      // A list would confine the thread of this test.
      if (!Array.isArray(first)) t.ok((await outcome('confineThread', first)) instanceof TypeError);
    }),
    { numRuns: RUNS },
  );
});

t.test('loadEngine takes options that are right but for a few', async (t) => {
  const right = {
    directories: [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'MARK') })],
    temporaryDirectory: temporaryFolder(t),
    marksDirectory,
    expectedSignatures: 1,
    singlePass: false,
    imageHashes: true,
    gates: null,
    infectedSample: Buffer.from('MARK'),
    cleanSample: Buffer.from('text'),
  };
  const keys = Object.keys({ ...right, ...defaultEngineLimits });
  const wrong = fc.dictionary(fc.constantFrom(...keys), anything, { minKeys: 0, maxKeys: 2 });
  await fc.assert(
    fc.asyncProperty(wrong, async (changes) => {
      const limits: Record<string, unknown> = { ...defaultEngineLimits };
      const options: Record<string, unknown> = { ...right, limits };
      for (const [key, value] of Object.entries(changes)) {
        if (key in defaultEngineLimits) limits[key] = value;
        else options[key] = value;
      }
      const result = await outcome('loadEngine', options);
      t.ok(result === 'done' || result.message !== '');
    }),
    { numRuns: Math.ceil(RUNS / 3) },
  );
});

t.test('a name that is no UTF-8 never comes out', async (t) => {
  const names = fc.uint8Array({ minLength: 1, maxLength: 40 }).map((name) => name.filter((byte) => byte > 0x3a));
  await fc.assert(
    fc.asyncProperty(names, async (name) => {
      const line = Buffer.concat([name, Buffer.from(':0:*:4d41524b\n')]);
      const other = Buffer.from(bodySignature('Test.Other', 'OTHER'));
      const folder = databaseFolder(t, { 'a.ndb': Buffer.concat([line, other]) });
      const loaded = await load(t, [folder]).catch((error: unknown) => error);
      if (loaded instanceof Error) t.not(loaded.message, '');
      else t.equal(await outcome('scanBuffer', Buffer.from('MARK')), 'done');
    }),
    { numRuns: Math.ceil(RUNS / 10) },
  );
});
