// Hashes of what images look like: made where a signature asks for one, and nowhere else.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';
import t from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { readAnswer, usualPolicy } from '../../src/engine/verdict.js';
import { bundle, zip } from '../fixtures/archives.js';
import { bytecodeProgram } from '../fixtures/bytecode.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { databaseFolder, loadEngine } from './engine.js';

const SIDE = 64;
const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');

/** Grey, 8 bits a pixel. */
function png(pixel: (x: number, y: number) => number): Buffer {
  const chunk = (name: string, content: Buffer): Buffer => {
    const named = Buffer.concat([Buffer.from(name), content]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(content.length);
    sum.writeUInt32BE(crc32(named));
    return Buffer.concat([length, named, sum]);
  };
  const header = Buffer.from([0, 0, 0, SIDE, 0, 0, 0, SIDE, 8, 0, 0, 0, 0]);
  const lines = Array.from({ length: SIDE }, (_, y) => [0, ...Array.from({ length: SIDE }, (_, x) => pixel(x, y))]);
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.from(lines.flat()))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

const image = png((x, y) => (x * y) % 256);
const other = png((x, y) => (x < y ? 255 : x));

/** As ClamAV's own tool says it. */
function hashOf(folder: string, content: Buffer): string {
  const path = join(folder, 'image');
  writeFileSync(path, content);
  const said = execFileSync('sigtool', ['--fuzzy-img', path], { encoding: 'latin1' });
  return `fuzzy_img#${/: ([0-9a-f]{16})\n/.exec(said)?.[1] ?? ''}`;
}

function isInfected(content: Buffer): boolean {
  return readAnswer(scanBuffer(content), usualPolicy).kind === 'infected';
}

t.test('an image is known by its hash, also with gates', async (t) => {
  const hash = hashOf(temporaryFolder(t), image);
  t.match(hash, /#./);
  const lines = [
    `Test.Image;Engine:150-255,Target:0;0;${hash}`,
    `Test.Other;Engine:81-255,Target:0;0;${hex('a literal of its own')}`,
  ];
  for (const files of [
    { 'a.ldb': `${lines.join('\n')}\n` },
    { 'a.cud': bundle({ 'a.ldb': `${lines.join('\n')}\n` }) },
  ]) {
    const directories = [databaseFolder(t, files)];
    const { options } = await prepareGates(directories, temporaryFolder(t), { prior: null });
    t.equal(options.imageHashes, true);
    const always = { directories, temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
    for (const made of [{}, options]) {
      await loadEngine({ ...always, ...made });
      t.equal(isInfected(image), true);
      t.equal(isInfected(zip([{ name: 'a.png', content: image }])), true);
      t.equal(isInfected(other), false);
    }
    await loadEngine({ ...always, imageHashes: false });
    t.equal(isInfected(image), false, 'it is not made');
    t.equal(isInfected(Buffer.from('with a literal of its own')), true);
  }
});

t.test('without such a signature it is not made', async (t) => {
  const trigger = (subsignature: string): string => `BC.Test.One-1.{};Engine:56-255,Target:0;0;${subsignature}`;
  const program = (subsignature: string): string =>
    bytecodeProgram(256, ['extract_new'], trigger(subsignature)).toString('latin1');
  for (const [what, files, isMade] of [
    ['a signature with bytes', { 'a.ldb': `Test.A;Engine:81-255,Target:0;0;${hex('a literal of its own')}\n` }, false],
    ['one that is not understood', { 'a.ldb': 'Test.A;Engine:81-255,Unknown:0;0;fuzzy_img#af2ad01ed42993c7\n' }, true],
    ['a program', { 'a.cud': bundle({ '1.cbc': program(hex('what starts it')) }) }, false],
    ['a program for images', { 'a.cud': bundle({ '1.cbc': program('fuzzy_img#af2ad01ed42993c7') }) }, true],
  ] as const) {
    const { options } = await prepareGates([databaseFolder(t, files)], temporaryFolder(t));
    t.equal(options.imageHashes, isMade, what);
  }
});
