// Images of disks: all partitions and files are looked at, or it is said that they can't be.
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { crc32, tar } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';
import { compressors } from './packers.js';

/** A disk of so many partitions of one sector, with the content in the last one. */
function disk(partitions: number, content: Buffer): Buffer {
  const at = 40;
  const bytes = Buffer.alloc(512 * (at + partitions + 40));
  bytes.set([0xee, 0, 0, 0, 1], 450);
  bytes.set([0x55, 0xaa], 510);
  bytes.write('EFI PART\0\0\x01\0\x5c', 512, 'latin1');
  for (const [place, value] of [1, bytes.length / 512 - 1, 34, bytes.length / 512 - 34].entries()) {
    bytes.writeUInt32LE(value, 536 + 8 * place);
  }
  for (const [place, value] of [2, 0, 128, 128].entries()) bytes.writeUInt32LE(value, 584 + 4 * place);
  for (let index = 0; index < partitions; index += 1) {
    const entry = bytes.subarray(1024 + 128 * index);
    entry.fill(1 + index, 0, 32);
    entry.writeUInt32LE(at + index, 32);
    entry.writeUInt32LE(at + index, 40);
  }
  bytes.writeUInt32LE(crc32(bytes.subarray(1024, 1024 + 128 * 128)), 600);
  bytes.writeUInt32LE(crc32(bytes.subarray(512, 512 + 92)), 528);
  bytes.set(content, 512 * (at + partitions - 1));
  return bytes;
}

/** An AppImage without its mark: a program whose sections end here, and an image of files. */
function appImage(isWide: boolean, image: string): Buffer {
  const head = Buffer.alloc(64);
  head.write(`\x7fELF${isWide ? '\x02' : '\x01'}`, 'latin1');
  head.writeUInt32LE(1000, isWide ? 40 : 32);
  head.writeUInt16LE(40, isWide ? 58 : 46);
  head.writeUInt16LE(3, isWide ? 60 : 48);
  return Buffer.concat([head, Buffer.alloc(1056), Buffer.from(image), Buffer.alloc(200)]);
}

/** A disk with a table of DOS: a partition of this kind, which says that it has so many sectors more than it has. */
function dosDisk(content: Buffer, more = 0, kind = 6): Buffer {
  const sectors = sectorsOf(content);
  const head = Buffer.alloc(512);
  head.set([0x80, 0, 1, 0, kind], 446);
  head.writeUInt32LE(1, 454);
  head.writeUInt32LE(sectors.length / 512 + more, 458);
  head.set([0x55, 0xaa], 510);
  return Buffer.concat([head, sectors]);
}

/** A disk of one partition, which ends so many sectors further on. */
const longer = (content: Buffer, more: number): Buffer =>
  changed(disk(1, content), (image) => {
    image.writeUInt32LE(40 + more, 1024 + 40);
    image.writeUInt32LE(crc32(image.subarray(1024, 1024 + 128 * 128)), 600);
    image.fill(0, 528, 532);
    image.writeUInt32LE(crc32(image.subarray(512, 512 + 92)), 528);
  });

/** What a partition lies in: the method, what is packed, and how many sectors that is. */
type Piece = readonly [method: number, packed: Buffer, sectors: number];

const zlib = 0x80000005;
const sectorsOf = (content: Buffer): Buffer => Buffer.concat([content, Buffer.alloc(-content.length & 511)]);
const packed = (content: Buffer): Piece => [zlib, deflateSync(sectorsOf(content)), sectorsOf(content).length / 512];

/** An image of macOS of one partition. The list stands behind the pieces or before them. */
function diskImage(pieces: readonly Piece[], isListFirst = false, begin = '<data>'): Buffer {
  const table = Buffer.alloc(204 + 40 * pieces.length);
  table.write('mish');
  table.writeUInt32BE(pieces.length, 200);
  const length = 1024 + 64 * pieces.length;
  let sector = 0;
  let place = isListFirst ? length : 0;
  for (const [index, [method, bytes, sectors]] of pieces.entries()) {
    const entry = table.subarray(204 + 40 * index);
    entry.writeUInt32BE(method);
    for (const [at, value] of [sector, sectors, place, bytes.length].entries()) {
      entry.writeBigUInt64BE(BigInt(value), 8 + 8 * at);
    }
    sector += sectors;
    place += bytes.length;
  }
  const list = Buffer.alloc(length, ' ');
  list.write(
    `<plist><dict><key>resource-fork</key><dict><key>blkx</key><array><dict><key>Data</key>${begin}${table.toString('base64')}</data></dict></array></dict></dict></plist>`,
  );
  const data = Buffer.concat(pieces.map(([, bytes]) => bytes));
  const trailer = Buffer.alloc(512);
  trailer.write('koly\0\0\0\x04\0\0\x02', 'latin1');
  trailer.writeBigUInt64BE(BigInt(isListFirst ? 0 : data.length), 216);
  trailer.writeBigUInt64BE(BigInt(length), 224);
  return Buffer.concat(isListFirst ? [list, data, trailer] : [data, list, trailer]);
}

/** A volume of HFS+ of one file, whose rights are not set, as old systems leave them. Its blocks may lie apart. */
function hfsPlus(content: Buffer, isApart = false): Buffer {
  const block = 512;
  const volume = Buffer.alloc(20 * block);
  const fork = (at: number, size: number, extents: readonly (readonly [number, number])[]): void => {
    volume.writeBigUInt64BE(BigInt(size), at);
    for (const [index, [start, count]] of extents.entries()) {
      volume.writeUInt32BE(start, at + 16 + 8 * index);
      volume.writeUInt32BE(count, at + 20 + 8 * index);
    }
  };
  volume.write('H+\0\x04', 1024, 'latin1');
  volume.writeUInt32BE(block, 1024 + 40);
  fork(1024 + 272, 2 * block, [[4, 2]]);
  const [head, leaf] = [4 * block, 5 * block];
  volume[head + 8] = 1;
  volume.writeUInt16BE(block, head + 32);
  volume[leaf + 8] = 0xff;
  volume.writeUInt16BE(1, leaf + 10);
  volume.writeUInt16BE(14, leaf + block - 2);
  volume.writeUInt16BE(6, leaf + 14);
  const record = leaf + 14 + 2 + 6;
  volume.writeUInt16BE(2, record);
  const places = Array.from({ length: Math.ceil(content.length / block) }, (_, at) => 10 + (isApart ? 2 : 1) * at);
  const extents = places.map((place) => [place, 1] as const);
  fork(record + 88, content.length, extents);
  for (const [at, place] of places.entries()) content.copy(volume, place * block, block * at, block * (at + 1));
  return volume;
}

/** An image of an optical disk by UDF, of one file. */
function udf(content: Buffer, sectorSize = 2048): Buffer {
  const sector = 2048;
  const image = Buffer.alloc(40 * sector);
  for (const [index, id] of ['BEA01', 'NSR02', 'TEA01'].entries()) image.write(id, (16 + index) * sector + 1);
  const tag = (at: number, kind: number): Buffer => {
    const bytes = image.subarray(at * sector);
    bytes.writeUInt16LE(kind);
    bytes[4] = (kind >> 8) + kind;
    return bytes;
  };
  tag(32, 5).writeUInt32LE(34, 188);
  tag(33, 6).writeUInt32LE(sectorSize, 212);
  const file = tag(34, 261);
  file[27] = 5;
  file.writeBigUInt64LE(BigInt(content.length), 56);
  file.writeUInt32LE(8, 172);
  file.writeUInt32LE(content.length, 176);
  file.writeUInt32LE(2, 180);
  content.copy(image, 36 * sector);
  return image;
}

t.test('the last one of many partitions is looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const partitions of [1, 60, 128]) {
    const verdict = verdictOf(disk(partitions, Buffer.from('hsqs')));
    t.equal(verdict, 'incomplete: engine cannot unpack SquashFS', `${partitions}`);
  }
});

function changed(image: Buffer, change: (image: Buffer) => void): Buffer {
  change(image);
  return image;
}

const wanted = eicar();
const volume = hfsPlus(wanted);
const half = volume.length / 2;
const damaged: Piece = [zlib, Buffer.alloc(20, 0xff), 1];
const words = Buffer.alloc(4096, 'words ');
/** What is known where it begins. */
const inside = Buffer.from('hsqs'.padEnd(600, '\x01'));
const squash = 'incomplete: engine cannot unpack SquashFS';
const foreign = 'incomplete: engine cannot unpack this kind of disk data';
const cannot = 'incomplete: engine cannot unpack this kind of DMG data';

const images: Record<string, [string, Buffer]> = {
  'a volume of HFS+': ['infected', volume],
  'a volume with a file of words': ['clean', hfsPlus(words.subarray(0, 600))],
  'a file in pieces': ['infected', hfsPlus(tar([{ name: 'wanted.com', content: wanted }]), true)],
  'a partition that is packed': ['infected', diskImage([packed(volume)])],
  'a partition of words': ['clean', diskImage([packed(words)])],
  'a partition in two pieces': [
    'infected',
    diskImage([packed(volume.subarray(0, half)), packed(volume.subarray(half))]),
  ],
  'a hole before a piece': [
    'infected',
    diskImage([packed(volume.subarray(0, 512)), [2, Buffer.alloc(0), 1], packed(volume.subarray(1024))]),
  ],
  'a gap before a piece': [
    'infected',
    diskImage([packed(volume.subarray(0, 512)), [0x7ffffffe, Buffer.alloc(0), 1], packed(volume.subarray(1024))]),
  ],
  'a partition by xz': ['infected', diskImage([[0x80000008, compressors.xz(volume), volume.length / 512]])],
  'a tar in a partition': ['infected', diskImage([packed(tar([{ name: 'wanted.com', content: wanted }]))])],
  'a piece behind the file that is damaged': ['infected', diskImage([packed(volume), damaged])],
  'a piece that is damaged': ['incomplete: damaged DMG data', diskImage([packed(words), damaged])],
  'a list before the pieces': ['infected', diskImage([packed(volume)], true)],
  'a list that macOS and others may read in two ways': [cannot, diskImage([packed(words)], false, '<data ><![CDATA[')],
  'no list of pieces': [cannot, Buffer.concat([words, diskImage([]).subarray(-512).fill(0, 216, 232)])],
  'pieces behind other bytes, as the trailer says': [
    cannot,
    changed(diskImage([packed(words)]), (image) => image.writeUInt8(1, image.length - 512 + 31)),
  ],
  'a list with letters by their numbers': [cannot, diskImage([packed(words)], false, '<data>&#65;')],
  'a piece by LZFSE': [cannot, diskImage([[0x80000007, words, 8]])],
  'a file that is longer than its pieces': [
    foreign,
    changed(hfsPlus(words.subarray(0, 600)), (image) => image.writeUInt8(9, 6 * 512 - 512 + 14 + 8 + 88 + 6)),
  ],
  'a catalog whose records lie in each other': [
    foreign,
    changed(hfsPlus(words.subarray(0, 600)), (image) => {
      image.writeUInt16BE(2, 5 * 512 + 10);
      image.writeUInt16BE(14, 6 * 512 - 4);
    }),
  ],
  'a catalog whose pieces lie in each other': [
    foreign,
    changed(hfsPlus(words.subarray(0, 600)), (image) => {
      for (let at = 1024 + 288; at < 1024 + 352; at += 8) image.writeUInt32BE(4, at);
      for (let at = 1024 + 292; at < 1024 + 352; at += 8) image.writeUInt32BE(16, at);
    }),
  ],
  'a file that is compressed by LZFSE': [foreign, hfsPlus(Buffer.from('fpmc\x0c\0\0\0', 'latin1'))],
  'two partitions that differ': [
    foreign,
    changed(udf(words), (image) => {
      image.copy(image, 35 * 2048, 32 * 2048, 33 * 2048);
      image.writeUInt32LE(9, 35 * 2048 + 188);
    }),
  ],
  'an AppImage without its mark': ['incomplete: engine cannot unpack SquashFS', appImage(true, 'hsqs')],
  'one of 32 bits': ['incomplete: engine cannot unpack DwarFS', appImage(false, 'DWARFS')],
  'a program with something else behind it': ['clean', appImage(true, 'words')],
  'a program that is cut': ['clean', appImage(true, 'hsqs').subarray(0, 1119)],
  'a partition that ends behind the disk': [squash, dosDisk(inside, 1)],
  'one of less than a sector': [squash, dosDisk(inside).subarray(0, 712)],
  'words in such a one': ['clean', dosDisk(words, 1)],
  'a logical partition that ends behind the disk': [squash, dosDisk(dosDisk(inside, 1), 0, 5)],
  'a partition that ends behind the disk, of the other table': [squash, longer(inside, 1000)],
  'one that ends where none may be': [squash, longer(inside, 12)],
  'words in one of the other table': ['clean', longer(words, 1000)],
  'what has no table': ['clean', dosDisk(inside, 1).fill(1, 462, 463)],
  'an optical disk': ['infected', udf(wanted)],
  'an optical disk of words': ['clean', udf(words)],
  'a disk by UDF with other sectors': [foreign, udf(words, 512)],
  'a disk by UDF with sectors that have moved': [
    foreign,
    changed(udf(words), (image) => void image.write('*UDF Sparable Partition', 33 * 2048 + 445)),
  ],
  'a disk by UDF with a partition for descriptors': [
    foreign,
    changed(udf(words), (image) => void image.write('*UDF Metadata Partition', 33 * 2048 + 445)),
  ],
  'a disk by UDF with a file of another partition': [
    foreign,
    changed(udf(words), (image) => {
      // A long extent, and the partition that it is of.
      image[34 * 2048 + 34] = 1;
      image.writeUInt32LE(16, 34 * 2048 + 172);
      image.writeUInt16LE(1, 34 * 2048 + 184);
    }),
  ],
};

t.test('all files of an image are looked at, or it is incomplete', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, [verdict, bytes]] of Object.entries(images)) t.equal(verdictOf(bytes), verdict, what);
});

t.test('many tables and pieces of an image of macOS take no longer than their bytes', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const begun = process.cpuUsage();
  const none: Piece = [2, Buffer.alloc(0), 0];
  const trailer = diskImage([]).subarray(-512);
  trailer.writeBigUInt64BE(0n, 216);
  trailer.writeBigUInt64BE(BigInt(8 << 20), 224);
  t.equal(verdictOf(Buffer.concat([Buffer.alloc(8 << 20, '<data>AAAA</data>'), trailer])), cannot);
  t.match(verdictOf(diskImage(Array.from({ length: 100_000 }, () => none))), 'incomplete');
  // Blocks of nothing, all of them in each piece.
  const empty = Buffer.concat([Buffer.from('7801', 'hex'), Buffer.alloc(100_000, Buffer.from('000000ffff', 'hex'))]);
  const same = diskImage([[zlib, empty, 1], ...Array.from({ length: 200 }, (): Piece => [zlib, Buffer.alloc(0), 1])]);
  const table = Buffer.from(same.subarray(same.indexOf('<data>') + 6, same.indexOf('</data>')).toString(), 'base64');
  for (let at = 204; at < table.length; at += 40) {
    table.writeBigUInt64BE(0n, at + 24);
    table.writeBigUInt64BE(BigInt(empty.length), at + 32);
  }
  same.write(table.toString('base64'), same.indexOf('<data>') + 6);
  t.equal(verdictOf(same), 'incomplete: too much of it only looks packed, or lies in several archives');
  const { user, system } = process.cpuUsage(begun);
  t.ok(user + system < 3_000_000, `${user + system} us of a processor`);
});
