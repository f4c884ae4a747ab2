// What lies in a program for Windows is looked at also where the program lies in a cpio or an RPM: libclamav doesn't look for it there.
import { deflateRawSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';
import { archived, rpm } from './packers.js';

/** An installer by NSIS whose files are packed each for itself. */
function installer(content: Buffer): Buffer {
  const header = Buffer.concat([Buffer.alloc(200), Buffer.from('header')]);
  const blocks = [header, content].map((block) => {
    const packed = deflateRawSync(block);
    const size = Buffer.alloc(4);
    size.writeUInt32LE((0x80000000 | packed.length) >>> 0);
    return Buffer.concat([size, packed]);
  });
  const packed = Buffer.concat(blocks);
  const sizes = Buffer.alloc(8);
  sizes.writeUInt32LE(header.length, 0);
  sizes.writeUInt32LE(28 + packed.length + 4, 4);
  const program = Buffer.concat([Buffer.from('MZ'), Buffer.alloc(510)]);
  const mark = Buffer.from('\0\0\0\0\xef\xbe\xad\xdeNullsoftInst', 'latin1');
  return Buffer.concat([program, mark, sizes, packed, Buffer.alloc(4)]);
}

const cpio = (format: string, content: Buffer): Buffer =>
  archived(
    (_, archive) => ['cpio', ['-o', '--quiet', '-H', format, '-O', archive]],
    [
      { name: 'a.txt', content: Buffer.from('words') },
      { name: 'setup.exe', content },
    ],
  );

t.test('an installer in a cpio is looked into', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const words = Buffer.alloc(500, 'words ');
  t.equal(verdictOf(installer(eicar())), 'infected', 'alone');
  for (const format of ['newc', 'crc', 'odc', 'bin']) {
    t.equal(verdictOf(cpio(format, installer(eicar()))), 'infected', format);
    t.equal(verdictOf(cpio(format, installer(words))), 'clean', `${format}, of words`);
  }
  t.equal(verdictOf(rpm(gzipSync(cpio('newc', installer(eicar()))))), 'infected', 'RPM');
});
