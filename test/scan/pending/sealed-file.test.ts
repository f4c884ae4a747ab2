// An encrypted content on disk: read back as it was written, in whatever pieces it came, and refused when anything of it was changed.
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openSealed, SealedFile } from '../../../src/scan/pending/sealed-file.js';
import { temporaryFolder } from '../../fixtures/folder.js';

const folder = temporaryFolder(t);
const key = randomBytes(32);
const path = join(folder, 'a');
const FRAME = 64 * 1024;
const answerMs = 60_000;
const REFUSED = /^(It is too short|It was changed, or is of another key)$/;
const owner = {
  onWritten: () => undefined,
  onUnwritable: (error: unknown) => {
    throw error;
  },
};

async function seal(content: Buffer, piece = content.length || 1, name = 'a'): Promise<string> {
  rmSync(path, { force: true });
  const file = new SealedFile({ path, name, key, answerMs }, owner);
  for (let at = 0; at < content.length; at += piece) file.append(content.subarray(at, at + piece));
  return await file.finish();
}

async function read(name = 'a', withKey = key): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of openSealed(path, name, withKey, (work) => work)) pieces.push(piece);
  return Buffer.concat(pieces);
}

t.test('contents of all sizes around a frame, in pieces of several sizes, come back', async (t) => {
  for (const bytes of [0, 1, 4096, 4097, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME, 3 * FRAME + 7]) {
    const content = randomBytes(bytes);
    for (const piece of [1000, FRAME, 10 * FRAME]) {
      const sha256 = await seal(content, piece);
      t.equal(sha256, createHash('sha256').update(content).digest('hex'), `${bytes} by ${piece}`);
      t.ok((await read()).equals(content));
      t.equal(
        readFileSync(path).indexOf(content.subarray(0, 32)) === -1 || bytes < 32,
        true,
        'nothing of it is in clear',
      );
    }
  }
});

t.test('a byte changed, a frame moved, dropped or added, another key, another name: refused', async (t) => {
  await seal(randomBytes(3 * FRAME + 100));
  const sealed = readFileSync(path);
  const frame = (index: number): Buffer => sealed.subarray(16 + index * (FRAME + 16), 16 + (index + 1) * (FRAME + 16));
  const head = sealed.subarray(0, 16);
  const flipped = (at: number): Buffer => {
    const copy = Buffer.from(sealed);
    copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
    return copy;
  };
  const broken = {
    'the salt': flipped(3),
    'a byte': flipped(5_000),
    'the last tag': flipped(sealed.length - 1),
    'frames in another order': Buffer.concat([head, frame(1), frame(0), frame(2), frame(3)]),
    'without the last frame': sealed.subarray(0, sealed.length - frame(3).length),
    'without a frame': Buffer.concat([head, frame(0), frame(2), frame(3)]),
    'a frame twice': Buffer.concat([sealed, frame(3)]),
    'cut within a frame': sealed.subarray(0, sealed.length - 50),
    'cut within a tag': sealed.subarray(0, sealed.length - frame(3).length + 7),
  };
  for (const [name, bytes] of Object.entries(broken)) {
    writeFileSync(path, bytes);
    await t.rejects(read(), REFUSED, name);
  }
  writeFileSync(path, sealed);
  await t.rejects(read('b'), REFUSED);
  await t.rejects(read('a', randomBytes(32)), REFUSED);
  t.equal((await read()).length, 3 * FRAME + 100);
});

t.test('the sender is held while much waits for the disk, and a disk that refuses is said once', async (t) => {
  rmSync(path, { force: true });
  let written: () => void = () => undefined;
  const isWritten = new Promise<void>((resolve) => {
    written = resolve;
  });
  const file = new SealedFile({ path, name: 'a', key, answerMs }, { ...owner, onWritten: written });
  while (!file.isFull) file.append(randomBytes(FRAME));
  await isWritten;
  t.notOk(file.isFull);
  await file.finish();

  const errors: unknown[] = [];
  const nowhere = new SealedFile(
    { path: join(folder, 'missing', 'a'), name: 'a', key, answerMs },
    {
      onWritten: () => undefined,
      onUnwritable: (error) => errors.push(error),
    },
  );
  nowhere.append(Buffer.from('x'));
  await t.rejects(nowhere.finish());
  t.match(errors, [{ code: 'ENOENT' }]);
});
