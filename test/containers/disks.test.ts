// Images of disks: all partitions are looked at, and what packs their pieces is known or said.
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { crc32 } from '../fixtures/archives.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

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

/** A list of one piece, of the method. */
function pieceOf(method: number): Buffer {
  const table = Buffer.alloc(204 + 40);
  table.write('mish');
  table.writeUInt32BE(method, 204);
  return Buffer.from(`<plist><data>\n\t${table.toString('base64')}\n</data></plist>`);
}

/** An image of macOS. */
function diskImage(list: Buffer): Buffer {
  const trailer = Buffer.alloc(512);
  trailer.write('koly\0\0\0\x04\0\0\x02', 'latin1');
  trailer.writeBigUInt64BE(BigInt(list.length), 224);
  return Buffer.concat([list, trailer]);
}

t.test('the last one of many partitions is looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const partitions of [1, 60, 128]) {
    const verdict = verdictOf(disk(partitions, Buffer.from('hsqs')));
    t.equal(verdict, 'incomplete: engine cannot unpack SquashFS', `${partitions}`);
  }
});

t.test('an image of macOS is incomplete where libclamav passes over a piece', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const method of [0x80000007, 0x80000008]) {
    t.equal(verdictOf(diskImage(pieceOf(method))), 'incomplete: engine cannot unpack this kind of DMG data');
  }
  for (const method of [0, 1, 0x80000005, 0x80000006]) t.equal(verdictOf(diskImage(pieceOf(method))), 'clean');
});

t.test('many tables of an image of macOS take no longer than their bytes', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const begun = performance.now();
  t.equal(verdictOf(diskImage(Buffer.alloc(8 << 20, '<data>AA'))), 'clean');
  t.ok(performance.now() - begun < 3000, `${performance.now() - begun} ms`);
});
