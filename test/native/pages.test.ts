// Engines of second looks lie in files: what was in their pages stays, whatever was given back before, and in memory where it can't go to a disk.
import { readFileSync, statfsSync } from 'node:fs';
import { createRequire } from 'node:module';
import * as fc from 'fast-check';
import t from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { faultAddonPath } from '../fixtures/faults.js';
import { databaseFolder, loadEngine, temporaryFolder } from './engine.js';

type Stretch = readonly [begin: number, end: number];

interface Addon {
  movePages(folder: string, pieces: Int32Array, look: (stretches: Stretch[]) => void): number;
  withoutMap(count: number, work: () => void): boolean;
}

const { movePages, withoutMap }: Addon = createRequire(import.meta.url)(faultAddonPath);

const PAGE = 4096;
const TMPFS = 0x01021994;
const RAMFS = 0x858458f6;

/** Of this process, those that a file without a name in the folder has. */
function mapsOf(folder: string): Stretch[] {
  return readFileSync('/proc/self/maps', 'latin1')
    .split('\n')
    .filter((line) => line.includes(` ${folder}/`) && line.endsWith(' (deleted)'))
    .map((line) => {
      const [begin = 0, end = 0] = (line.split(' ')[0] ?? '').split('-').map((address) => Number.parseInt(address, 16));
      return [begin, end];
    });
}

/** So many bytes of the stretches that are in the maps. */
function within(stretches: readonly Stretch[], maps: readonly Stretch[]): number {
  let bytes = 0;
  for (const [begin, end] of stretches) {
    for (const [from, to] of maps) bytes += Math.max(0, Math.min(end, to) - Math.max(begin, from));
  }
  return bytes;
}

function bytesOf(maps: readonly Stretch[]): number {
  return maps.reduce((sum, [begin, end]) => sum + end - begin, 0);
}

/** Otherwise pages stay where they are. */
function isOnDisk(folder: string): boolean {
  const { type, bavail, bsize } = statfsSync(folder);
  return ![TMPFS, RAMFS].includes(type) && bavail * bsize > 2 ** 30 + 2 ** 22;
}

/** So many pages; from which of them on so many are given back. */
const piece = fc.tuple(fc.integer({ min: 1, max: 40 }), fc.nat({ max: 40 }), fc.nat({ max: 40 }));

t.test('pages keep what is in them, and what lies before a gap is in the file', async (t) => {
  const folder = temporaryFolder(t);
  const isKept = isOnDisk(folder);
  const isSound = (pieces: readonly (readonly [number, number, number])[]): boolean => {
    let isInFile = false;
    const lost = movePages(folder, Int32Array.from(pieces.flat()), (stretches) => {
      const maps = mapsOf(folder);
      const wanted = pieces.reduce((sum, [pages, gap, size]) => sum + (size === 0 ? pages : Math.min(pages, gap)), 0);
      isInFile = within(stretches, maps) === bytesOf(maps) && bytesOf(maps) === (isKept ? wanted * PAGE : 0);
    });
    return lost === 0 && isInFile;
  };
  fc.assert(fc.property(fc.array(piece, { maxLength: 20 }), isSound), { numRuns: 300 });
  t.same(mapsOf(folder), [], 'a file goes with the last map of it');
});

t.test('what has no map of the file stays in memory', async (t) => {
  const folder = temporaryFolder(t);
  const pieces = [10, 9, 1, 10, 9, 1, 10, 9, 1];
  if (!isOnDisk(folder)) t.comment('the folder is in memory: no map is asked for');
  for (const maps of isOnDisk(folder) ? [0, 1, 2] : []) {
    const move = (): number =>
      movePages(folder, Int32Array.from(pieces), () => t.equal(bytesOf(mapsOf(folder)), maps * 9 * PAGE));
    t.ok(withoutMap(pieces.length / 3 + maps, () => t.equal(move(), 0)));
  }
});

t.test('there is no file where the folder is in memory, or is none', async (t) => {
  t.equal(statfsSync('/dev/shm').type, TMPFS);
  for (const folder of ['/dev/shm', '/nowhere']) {
    const move = (): number => movePages(folder, Int32Array.of(10, 10, 0), () => t.same(mapsOf(folder), []));
    t.equal(move(), 0, folder);
  }
});

t.test(
  'engines that look again lie in files, that of all contents does not, and what is behind gates matches',
  async (t) => {
    const signature = 'Test.A;Engine:51-255,Target:0;0&1;6162636465666768;696a6b6c6d6e6f70';
    const directories = [databaseFolder(t, { 'a.ldb': `${signature}\n` })];
    const options = { directories, temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
    const store = temporaryFolder(t);
    const gates = await prepareGates(directories, store, { prior: null });
    await loadEngine({ ...options, ...gates.options });
    t.equal(mapsOf(store).length > 0, isOnDisk(store));
    t.match(scanBuffer(Buffer.from('abcdefgh and ijklmnop')), { code: 1, virusName: 'Test.A.UNOFFICIAL' });
    t.match(scanBuffer(Buffer.from('abcdefgh and nothing')), { code: 0 });
    await loadEngine(options);
    t.same(mapsOf(store), [], 'nothing is left of them behind the next engine');
  },
);
