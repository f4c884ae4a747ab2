// Where libclamav's copies lie: apart from each other, of zeros, given back in any order; and files that need more than there is are scanned all the same.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import * as fc from 'fast-check';
import t from 'tap';
import { z } from 'zod';
import { scanBuffer } from '../../src/engine/clamav/addon.js';
import { tar, zip } from '../fixtures/archives.js';
import { start } from '../fixtures/command.js';
import { faultAddonPath, faultEnvironment } from '../fixtures/faults.js';
import { bodySignature, databaseFolder, load } from './engine.js';

interface Addon {
  takeAndGiveBack(steps: Int32Array): number[];
  withoutMap(count: number, work: () => void): boolean;
}

const { takeAndGiveBack, withoutMap }: Addon = createRequire(import.meta.url)(faultAddonPath);

const answer = z.object({ code: z.number(), virusName: z.string().nullable() });
const results = z.array(z.object({ what: z.string(), scans: z.array(answer) }));

const PAGE = 4096;
const ARENA = 512 * 1024;

/** Pages that are taken, or the number of a step whose piece is given back then, if it still is one. */
const step = fc.oneof(
  fc.record({ pages: fc.integer({ min: 1, max: 140 }) }),
  fc.record({ pages: fc.integer({ min: 1, max: 6 }) }),
  fc.record({ piece: fc.nat({ max: 40 }) }),
);

/** Follows what is said of each step; false: it can't be so. */
function isSound(wanted: readonly ({ pages: number } | { piece: number })[]): boolean {
  const steps: number[] = [];
  const sizes: number[] = [];
  const given = new Set<number>();
  const places: { readonly taken: number | null }[] = [];
  for (const one of wanted) {
    if ('pages' in one) {
      steps.push(one.pages * PAGE);
      places.push({ taken: sizes.length });
      sizes.push(one.pages * PAGE);
    } else if (one.piece < sizes.length && !given.has(one.piece)) {
      given.add(one.piece);
      steps.push(-one.piece);
      places.push({ taken: null });
    }
  }
  const said = takeAndGiveBack(Int32Array.from(steps));
  const held = new Map<number, { readonly begin: number; readonly end: number }>();
  const lacking = new Set<number>();
  for (const [index, begin] of said.entries()) {
    const taken = places[index]?.taken ?? null;
    if (taken === null) {
      const piece = -(steps[index] ?? 0);
      if (lacking.has(piece) ? begin !== -3 : held.get(piece)?.begin !== begin) return false;
      held.delete(piece);
      continue;
    }
    const end = begin + (sizes[taken] ?? 0);
    // There is always room where nothing is held.
    if (begin === -1 && held.size === 0 && (sizes[taken] ?? 0) <= ARENA) return false;
    if (begin === -1) {
      lacking.add(taken);
      continue;
    }
    if (begin < 0 || end > ARENA || [...held.values()].some((one) => begin < one.end && one.begin < end)) return false;
    held.set(taken, { begin, end });
  }
  return true;
}

t.test('pieces lie apart, hold zeros, and their room comes back', async () => {
  fc.assert(fc.property(fc.array(step, { maxLength: 80 }), isSound), { numRuns: 3_000 });
});

t.test('where the system has no pages there is no room, and it is not asked again', (t) => {
  t.ok(withoutMap(0, () => t.same(takeAndGiveBack(Int32Array.of(PAGE, PAGE)), [-1, -1])));
  t.same(takeAndGiveBack(Int32Array.of(PAGE, PAGE)), [0, PAGE], 'of another thread');
  t.end();
});

t.test('an infected content is found or has no verdict, whichever of its maps fails', async (t) => {
  const program = fileURLToPath(new URL('./mapless-scans.js', import.meta.url));
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  const { stdout } = await start(t, program, [folder], { env: faultEnvironment }).ended;
  for (const { what, scans } of results.parse(JSON.parse(stdout))) {
    t.ok(scans.length > 1, `${what}: ${scans.length - 1} maps`);
    for (const [index, { code }] of scans.entries()) t.not(code, 0, `${what}, without map ${index}`);
    t.equal(scans.at(-1)?.virusName, 'Test.A.UNOFFICIAL');
  }
});

t.test('copies of every size, many of them at one time', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') })]);
  const around = (bytes: number): Buffer =>
    Buffer.concat([Buffer.alloc(bytes, 'x'), Buffer.from('a mark of this test')]);
  for (const bytes of [100, PAGE - 19, PAGE, 200_000, ARENA - 19, ARENA, 3_000_000]) {
    // Each archive is a file of its own to libclamav while it looks into the next one.
    let content = around(bytes);
    for (let depth = 0; depth < 8; depth += 1) {
      content = depth % 2 === 0 ? zip([{ name: 'inner', content }]) : tar([{ name: 'inner', content }]);
      t.match(scanBuffer(content), { code: 1, virusName: 'Test.A.UNOFFICIAL' }, `${bytes} bytes, ${depth} deep`);
    }
    t.match(
      scanBuffer(zip([{ name: 'inner', content: Buffer.alloc(bytes, 'x') }])),
      { code: 0 },
      `${bytes} bytes, clean`,
    );
  }
});
