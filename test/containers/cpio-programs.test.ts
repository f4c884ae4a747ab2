// What lies in a program for Windows is looked at also where the program lies in a cpio or an RPM, and programs are where they stand behind a
// script, a shortcut or a picture: libclamav doesn't look for them there.
import { createHash } from 'node:crypto';
import { deflateRawSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import { databaseFolder, load } from '../native/engine.js';
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

/** Its second header stands so far behind the first one. */
function program(second: number, machine = '4c01'): Buffer {
  const bytes = Buffer.alloc(second + 400, 'code ');
  bytes.fill(0, 0, 64).write('MZ');
  bytes.writeUInt32LE(second, 60);
  bytes.write(`50450000${machine}`, second, 'hex');
  return bytes;
}

const programs: Record<string, Buffer> = {
  'a program': program(128),
  'a program of 64 bits': program(64, '6486'),
  'a program with a long head': program(1024),
  'a program for Linux': Buffer.concat([Buffer.from('\x7fELF\x02\x01\x01', 'latin1'), Buffer.alloc(500, 'code ')]),
};
const before: Record<string, Buffer> = {
  'a script': Buffer.from(`#!/bin/sh\ntail -c +2048 "$0" > a; ./a; exit\n${'# words\n'.repeat(300)}`),
  'a shortcut': Buffer.concat([Buffer.from('4c0000000114020000000000c000000000000046', 'hex'), Buffer.alloc(1500)]),
  'a picture': Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(1500)]),
};

t.test('a program behind a script, a shortcut or a picture is looked at', async (t) => {
  const list = Object.values(programs).map(
    (bytes) => `${createHash('md5').update(bytes).digest('hex')}:${bytes.length}:Listed\n`,
  );
  await load(t, [databaseFolder(t, { 'a.hdb': list.join('') })]);
  for (const [where, head] of Object.entries(before)) {
    for (const [what, bytes] of Object.entries(programs)) {
      t.equal(verdictOf(Buffer.concat([head, bytes])), 'infected', `${what} behind ${where}`);
    }
    const other = program(128).fill('other ', 200);
    t.equal(verdictOf(Buffer.concat([head, other, program(1025).subarray(0, -1)])), 'clean', `others behind ${where}`);
  }
  t.equal(verdictOf(Buffer.from(`words ${'PE\0\0L\x01'.repeat(100_000)}`, 'latin1')), 'clean', 'second headers alone');
});
