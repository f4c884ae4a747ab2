// A few bytes that ask for very much work out of which nothing comes: lists and members that are named again and again, and sizes of nothing.
import { deflateRawSync, deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { crc32, tar } from '../fixtures/archives.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const tooMuch = 'incomplete: too much of it only looks packed, or lies in several archives';

function high(...all: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * all.length);
  for (const [at, value] of all.entries()) bytes.writeUInt32BE(value, 4 * at);
  return bytes;
}

/** Marks of PyInstaller which all say that the same list is theirs. */
function marksOfOneList({ marks, entries, size }: { marks: number; entries: number; size: number }): Buffer {
  const entry = Buffer.concat([high(19, 0, size, 0), Buffer.alloc(3)]);
  const list = Buffer.alloc(19 * entries, entry);
  const parts: Buffer[] = [list, Buffer.alloc(size * entries)];
  let at = list.length + size * entries;
  for (let index = 0; index < marks; index += 1, at += 24) {
    parts.push(Buffer.from('MEI\x0c\x0b\x0a\x0b\x0e', 'latin1'), high(at + 24, 0, list.length, 0));
  }
  return Buffer.concat(parts);
}

/** Blocks of deflate that hold nothing, and a directory that names them again and again. */
function zipOfOneMember(names: number, blocks: number): Buffer {
  const data = Buffer.concat([Buffer.alloc(5 * blocks, Buffer.from('000000ffff', 'hex')), Buffer.from('0300', 'hex')]);
  const head = Buffer.alloc(26);
  head.writeUInt16LE(20, 0);
  head.writeUInt16LE(8, 4);
  head.writeUInt32LE(data.length, 14);
  head.writeUInt16LE(1, 22);
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), head, Buffer.from('a'), data]);
  const record = Buffer.concat([Buffer.from('PK\x01\x02\x14\0'), head, Buffer.alloc(14), Buffer.from('a')]);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(names, 4);
  end.writeUInt16LE(names, 6);
  end.writeUInt32LE(record.length * names, 8);
  end.writeUInt32LE(local.length, 12);
  return Buffer.concat([local, Buffer.alloc(record.length * names, record), Buffer.from('PK\x05\x06'), end]);
}

/** An installer of files without bytes: of each there is the size alone. */
function installerOfSizes(files: number): Buffer {
  const packed = deflateRawSync(Buffer.concat([Buffer.from([1, 0, 0, 0, 7]), Buffer.alloc(4 * files)]));
  const sizes = Buffer.from(new Uint32Array([1, 28 + packed.length]).buffer);
  const mark = Buffer.from('\0\0\0\0\xef\xbe\xad\xdeNullsoftInst', 'latin1');
  return Buffer.concat([Buffer.from('MZ'), Buffer.alloc(510), mark, sizes, packed]);
}

/** An archive of XAR with nothing but a list of elements that say nothing. */
function xarOfElements(bytes: number): Buffer {
  const list = deflateSync(Buffer.concat([Buffer.from('<toc>'), Buffer.alloc(bytes, '<data></data>')]));
  return Buffer.concat([Buffer.from('xar!\0\x1c\0\x01'), Buffer.alloc(20), list]);
}

/** Tars with other bytes behind each of them. One whose first name is the magic of a cabinet is found in two ways by what lies before it. */
function tarsWithName(name: string, count: number): Buffer {
  const parts: Buffer[] = [];
  for (let index = 0; index < count; index += 1) {
    const other = Buffer.alloc(65_536, 'other bytes');
    other.writeUInt32BE(index + 1, 0);
    parts.push(tar([{ name, content: Buffer.alloc(0) }]), other);
  }
  return Buffer.concat(parts);
}

/** Of one folder with one coder, which takes so many streams and makes as many: each but one of these is for another one. */
function sevenZipOfStreams(count: number): Buffer {
  const coder = [1, 0x11, 5, count, count, ...Array<number>(2 * (count - 1)).fill(0)];
  const list = Buffer.from([1, 4, 6, 0, 1, 9, 5, 0, 7, 11, 1, 0, ...coder, 12, ...Array<number>(count).fill(0), 0, 0]);
  const start = Buffer.alloc(20);
  start.writeUInt32LE(list.length, 8);
  start.writeUInt32LE(crc32(list), 16);
  const sum = Buffer.alloc(4);
  sum.writeUInt32LE(crc32(start));
  return Buffer.concat([Buffer.from('377abcaf271c0004', 'hex'), sum, start, list]);
}

const contents: Record<string, [string, Buffer]> = {
  'a list that few marks have': ['clean', marksOfOneList({ marks: 3, entries: 1000, size: 0 })],
  'a list that many marks have': [tooMuch, marksOfOneList({ marks: 2000, entries: 1000, size: 0 })],
  'a list of files that many marks have': [tooMuch, marksOfOneList({ marks: 60, entries: 100, size: 300 })],
  'tars behind each other': ['clean', tarsWithName('a', 15)],
  'tars behind each other that are cabinets as well': [tooMuch, tarsWithName('MSCF\0\0\0\0', 15)],
  'a member that a directory names twice': ['clean', zipOfOneMember(2, 20_000)],
  'a member that a directory names often': [tooMuch, zipOfOneMember(500, 20_000)],
  'such a member behind other bytes': [tooMuch, Buffer.concat([Buffer.alloc(100, 'X'), zipOfOneMember(500, 20_000)])],
  'an installer of some sizes': ['clean', installerOfSizes(1000)],
  'a folder of 7z with some streams': ['incomplete: engine cannot unpack this kind of 7z data', sevenZipOfStreams(64)],
  'a folder of 7z with more streams than there can be': ['incomplete: damaged 7z data', sevenZipOfStreams(65)],
  'a list of XAR': ['clean', xarOfElements(1 << 16)],
  'a list of XAR that is packed into very few bytes': [tooMuch, xarOfElements(8 << 20)],
  'an installer of very many sizes': [tooMuch, installerOfSizes(1 << 20)],
};

t.test('what is to be looked at again and again has an end', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, [verdict, bytes]] of Object.entries(contents)) t.equal(verdictOf(bytes), verdict, what);
});
