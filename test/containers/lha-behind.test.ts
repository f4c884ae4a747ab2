// LHA behind other bytes, as archives that unpack themselves are, and pictures that somebody has put one behind.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted = eicar();
const words = Buffer.alloc(300, 'words ');
const end = Buffer.alloc(1);

/** A member as it is, behind its header. Those of the levels 0 and 1 have a sum, those of the others are behind sizes. */
function member(level: number, content: Buffer, method = '-lh0-'): Buffer {
  const header = Buffer.alloc([28, 31, 26, 32][level] ?? 0);
  header.write(method, 2);
  header.writeUInt32LE(content.length, 7);
  header.writeUInt32LE(content.length, 11);
  header.set([0x20, level], 19);
  if (level < 2) {
    header.set([4, ...Buffer.from('a.sh')], 21);
    header[0] = header.length - 2;
    header[1] = header.subarray(2).reduce((sum, byte) => sum + byte, 0) & 0xff;
  } else {
    header.writeUInt16LE(level === 2 ? header.length : 4, 0);
    if (level === 3) header.writeUInt32LE(header.length, 24);
  }
  return Buffer.concat([header, content]);
}

const program = readFileSync('/usr/share/clamav-testfiles/clam.exe').fill(0x55, 300);
const before: Record<string, Buffer> = {
  'a program': program,
  'a script': Buffer.from('#!/bin/sh\necho words\nexit 0\n'),
  'a picture': Buffer.from(
    'GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;',
    'latin1',
  ),
  'names of methods': Buffer.from('-lh0-\0-lh5-\0\0\0-lzs-\0\0\0-pm2-\0\0\0'),
};

t.test('LHA behind other bytes is looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(before)) {
    for (const level of [0, 1, 2, 3]) {
      const archive = Buffer.concat([member(level, words), member(level, wanted), end]);
      t.equal(verdictOf(Buffer.concat([bytes, archive])), 'infected', `level ${level} behind ${what}`);
    }
    const harmless = Buffer.concat([bytes, member(0, words), member(2, words), end]);
    t.equal(verdictOf(harmless), 'clean', `words behind ${what}`);
    t.equal(verdictOf(bytes), 'clean', what);
  }
});

t.test('LHA behind other bytes by a method that the engine lacks is incomplete', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const bytes = Buffer.concat([program, member(0, words), member(1, words, '-lh2-'), end]);
  t.equal(verdictOf(bytes), 'incomplete: engine has not unpacked all of the compressed data');
});

t.test('what only looks like a header of LHA is none', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const first = member(0, words, '-lh2-');
  for (const [what, at, value] of [
    ['another sum', 1, (first[1] ?? 0) ^ 1],
    ['a level that there is not', 20, 4],
    ['a name that is longer than the header', 21, 200],
  ] as const) {
    const bytes = Buffer.from(first);
    bytes[at] = value;
    t.equal(verdictOf(Buffer.concat([program, bytes])), 'clean', what);
  }
  const long = member(2, words, '-lh2-').subarray(0, -1);
  t.equal(verdictOf(Buffer.concat([program, long])), 'clean', 'one that is longer than all there is');
});
