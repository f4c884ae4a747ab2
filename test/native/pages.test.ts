// Engines of second looks lie in files: what was in their pages stays, whatever was given back before, and in memory where it can't go to a disk.
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import * as fc from 'fast-check';
import t, { type Test } from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { packageJsonPath } from '../../src/paths.js';
import { faultAddonPath } from '../fixtures/faults.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { until } from '../fixtures/until.js';
import { databaseFolder, loadEngine } from './engine.js';

type Stretch = readonly [begin: number, end: number];

interface Addon {
  movePages(folder: string, pieces: Int32Array, look: (stretches: Stretch[]) => void): number;
  withoutMap(count: number, work: () => void): boolean;
  withoutWrite(count: number, work: () => void): boolean;
}

const { movePages, withoutMap, withoutWrite }: Addon = createRequire(import.meta.url)(faultAddonPath);

const PAGE = 4096;
const TMPFS = 0x01021994;
/** In memory, of a network, or of a program (statfs(2)). */
const NO_DISK = [TMPFS, 0x858458f6, 0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x65735546];
/** open(2), beside O_DIRECTORY. */
const TMPFILE = 0o20000000;

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

/** Of files without a name in the folder, what is in the memory of this process. */
function residentOf(folder: string): number {
  const maps = readFileSync('/proc/self/smaps', 'latin1').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const own = maps.filter((map) => map.split('\n', 1)[0]?.includes(` ${folder}/`));
  return own.reduce((sum, map) => sum + Number(/^Rss: +(\d+) kB$/m.exec(map)?.[1]), 0);
}

function bytesOf(maps: readonly Stretch[]): number {
  return maps.reduce((sum, [begin, end]) => sum + end - begin, 0);
}

/** Whether pages can go to a file there. */
function canHold(folder: string): boolean {
  const { type, bavail, bsize } = statfsSync(folder);
  if (NO_DISK.includes(type) || bavail * bsize < 2 ** 30 + 2 ** 22) return false;
  try {
    closeSync(openSync(folder, constants.O_DIRECTORY | TMPFILE | constants.O_RDWR));
    return true;
  } catch {
    return false;
  }
}

const project = join(dirname(packageJsonPath), 'dist');
/** On a disk, where other files of tests are in memory. Undefined: this machine has none that could hold them, and they stay where they are. */
const disk = [project, '/var/tmp', homedir()].find(canHold);

function diskFolder(t: Test): string {
  const path = mkdtempSync(join(disk ?? project, 'pages-'));
  t.teardown(() => rmSync(path, { recursive: true }));
  return path;
}

/** So many pages; from which of them on so many are given back. */
const piece = fc.tuple(fc.integer({ min: 1, max: 40 }), fc.nat({ max: 40 }), fc.nat({ max: 40 }));

t.test('pages keep what is in them, and what lies before a gap is in the file', async (t) => {
  const folder = diskFolder(t);
  const isSound = (pieces: readonly (readonly [number, number, number])[]): boolean => {
    let isInFile = false;
    const lost = movePages(folder, Int32Array.from(pieces.flat()), (stretches) => {
      const maps = mapsOf(folder);
      const wanted = pieces.reduce((sum, [pages, gap, size]) => sum + (size === 0 ? pages : Math.min(pages, gap)), 0);
      isInFile =
        within(stretches, maps) === bytesOf(maps) && bytesOf(maps) === (disk === undefined ? 0 : wanted * PAGE);
    });
    return lost === 0 && isInFile;
  };
  fc.assert(fc.property(fc.array(piece, { maxLength: 20 }), isSound), { numRuns: 300 });
  t.same(mapsOf(folder), [], 'a file goes with the last map of it');
});

t.test('what lies in a file takes no memory once it was left, and is as it was', async (t) => {
  const folder = diskFolder(t);
  t.equal(
    movePages(folder, Int32Array.of(40, 30, 2), () => t.equal(residentOf(folder), 0)),
    0,
  );
});

t.test('what can not be written, synced or mapped stays in memory', async (t) => {
  if (disk === undefined) t.comment('nothing is written on this machine');
  const folder = diskFolder(t);
  const pieces = Int32Array.of(10, 9, 1, 10, 9, 1, 10, 9, 1);
  const count = pieces.length / 3;
  const move = (moved: number) => (): void => {
    t.equal(
      movePages(folder, pieces, () => t.equal(bytesOf(mapsOf(folder)), moved * 9 * PAGE)),
      0,
    );
  };
  for (let calls = 0; calls < (disk === undefined ? 0 : count); calls += 1) {
    t.ok(withoutWrite(calls, move(0)), `without write ${calls}`);
    t.ok(withoutMap(count + calls, move(calls)), `without map ${calls}`);
  }
  if (disk !== undefined) t.ok(withoutWrite(count, move(0)), 'not synced');
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
    // As many as need more pages than an empty engine has.
    const hex = (text: string): string => Buffer.from(text).toString('hex');
    const signatures = Array.from({ length: 5_000 }, (_, index) => {
      const [one, other] = [`first ${index} part`, `other ${index} part`].map(hex);
      return `Test.A${index};Engine:51-255,Target:0;0&1;${one};${other}\n`;
    });
    const directories = [databaseFolder(t, { 'a.ldb': signatures.join('') })];
    const options = { directories, temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
    const store = diskFolder(t);
    const gates = await prepareGates(directories, store, { prior: null });
    await loadEngine({ ...options, ...gates.options });
    t.equal(mapsOf(store).length > 0, disk !== undefined);
    t.match(scanBuffer(Buffer.from('first 77 part, other 77 part')), { code: 1, virusName: 'Test.A77.UNOFFICIAL' });
    t.match(scanBuffer(Buffer.from('first 77 part, other 78 part')), { code: 0 });
    await loadEngine(options);
    // Another thread frees them.
    await until(() => mapsOf(store).length === 0);
  },
);
