// Disks whose table libclamav finds a fault with: tools take the partitions all the same, so each is looked at.
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { crc32 } from '../fixtures/archives.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const SECTOR = 512;
/** What is known where it begins. */
const squash = Buffer.from('hsqs'.padEnd(4096, '\x01'));
const words = Buffer.alloc(4096, 'words ');

type Entry = readonly [kind: number, first: number, count: number];

/** The content is in the sectors from the eighth one on. */
function dosDisk(content: Buffer, entries: readonly Entry[]): Buffer {
  const head = Buffer.alloc(8 * SECTOR);
  for (const [index, [kind, first, count]] of entries.entries()) {
    head[446 + 16 * index + 4] = kind;
    head.writeUInt32LE(first, 446 + 16 * index + 8);
    head.writeUInt32LE(count, 446 + 16 * index + 12);
  }
  head.set([0x55, 0xaa], 510);
  return Buffer.concat([head, content]);
}

interface Gpt {
  readonly content?: Buffer;
  readonly sector?: number;
  readonly entryBytes?: number;
  readonly wrongSum?: boolean;
  readonly without?: 'first' | 'second';
  readonly lastUsable?: number;
}

function gptDisk({ content = squash, sector = SECTOR, entryBytes = 128, wrongSum, without, lastUsable }: Gpt): Buffer {
  const list = Buffer.alloc(Math.ceil((128 * entryBytes) / sector) * sector);
  const first = 2 + list.length / sector;
  const last = first + content.length / sector - 1;
  list.fill(1, 0, 32);
  list.writeBigUInt64LE(BigInt(first), 32);
  list.writeBigUInt64LE(BigInt(last), 40);
  const header = (own: number, other: number, listAt: number): Buffer => {
    const bytes = Buffer.alloc(sector);
    bytes.write('EFI PART\0\0\x01\0\x5c', 'latin1');
    for (const [place, value] of [own, other, first, lastUsable ?? last].entries()) {
      bytes.writeBigUInt64LE(BigInt(value), 24 + 8 * place);
    }
    bytes.writeBigUInt64LE(BigInt(listAt), 72);
    bytes.writeUInt32LE(128, 80);
    bytes.writeUInt32LE(entryBytes, 84);
    bytes.writeUInt32LE(crc32(list.subarray(0, 128 * entryBytes)), 88);
    bytes.writeUInt32LE((crc32(bytes.subarray(0, 92)) ^ (wrongSum ? 1 : 0)) >>> 0, 16);
    return bytes;
  };
  const end = last + list.length / sector + 1;
  const protecting = Buffer.alloc(sector);
  protecting.set([0xee, 0, 0, 0, 1, 0, 0, 0, 0xff], 450);
  protecting.set([0x55, 0xaa], 510);
  const one = without === 'first' ? Buffer.alloc(sector) : header(1, end, 2);
  const other = without === 'second' ? [] : [list, header(end, 1, last + 1)];
  return Buffer.concat([protecting, one, list, content, ...other]);
}

const disks: Record<string, (content: Buffer) => Buffer> = {
  'a table': (content) => dosDisk(content, [[6, 8, 8]]),
  'a table whose second partition ends behind the disk': (content) =>
    dosDisk(content, [
      [6, 8, 8],
      [6, 0xffffff, 5],
    ]),
  'a table with a partition and one that protects': (content) =>
    dosDisk(content, [
      [0xee, 1, 7],
      [6, 8, 8],
    ]),
  'a table with a partition of no kind': (content) => dosDisk(content, [[0, 8, 8]]),
  'the other table': (content) => gptDisk({ content }),
  'the other table, in large sectors': (content) => gptDisk({ content, sector: 4096 }),
  'one with long entries': (content) => gptDisk({ content, entryBytes: 256 }),
  'one with a wrong sum': (content) => gptDisk({ content, wrongSum: true }),
  'one without its second header': (content) => gptDisk({ content, without: 'second' }),
  'one without its second header, in large sectors': (content) => gptDisk({ content, without: 'second', sector: 4096 }),
  'one without its first header': (content) => gptDisk({ content, without: 'first', wrongSum: true }),
  'one with room behind the disk': (content) => gptDisk({ content, lastUsable: 2 ** 40 }),
};

t.test('each partition is looked at, whatever is wrong with the table', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, make] of Object.entries(disks)) {
    t.equal(verdictOf(make(squash)), 'incomplete: engine cannot unpack SquashFS', what);
    t.equal(verdictOf(make(words)), 'clean', `${what}, of words`);
  }
});

t.test('partitions that lie in each other take no longer than some times their bytes', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const disk = gptDisk({ content: Buffer.alloc(2 << 20, 'words '), wrongSum: true });
  for (let index = 1; index < 128; index += 1) disk.copy(disk, 1024 + 128 * index, 1024, 1024 + 128);
  t.equal(verdictOf(disk), 'incomplete: too much of it only looks packed, or lies in several archives');
});

t.test('what may be unpacked in vain is used up to its last byte, and nothing is clean of it', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const disk = gptDisk({ content: Buffer.concat([squash, Buffer.alloc(2 << 20, 'words ')]), wrongSum: true });
  const sectors = disk.length / SECTOR;
  const first = 34;
  // All of the disk but its lists: one such partition costs nothing, four more nearly all of what there is, and the last one the rest.
  const large = sectors - 128;
  const spare = (1 << 20) / SECTOR + 4 * sectors;
  const counts = [squash.length / SECTOR, large, large, large, large, large, spare - 4 * large];
  for (const [index, count] of counts.entries()) {
    const entry = disk.subarray(1024 + 128 * index, 1024 + 128 * (index + 1)).fill(1, 0, 32);
    entry.writeBigUInt64LE(BigInt(first), 32);
    entry.writeBigUInt64LE(BigInt(first + count - 1), 40);
  }
  t.equal(verdictOf(disk), 'incomplete: too much of it only looks packed, or lies in several archives');
});
