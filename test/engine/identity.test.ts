// The identity of an engine: the same for engines that say the same of every content, and another for all others.
import { copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { scannerDigest } from '../../src/engine/clamav/addon.js';
import { buildClamav } from '../../src/engine/clamav/engine.js';
import type { BuildOrder } from '../../src/engine/engine.js';
import { loadSignatures, type SignatureOptions } from '../../src/engine/signatures.js';
import { socketsAddonPath } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const MIB = 1024 * 1024;
const database = bodySignature('Test.A', 'a mark of this test');

function rule(text: string): string {
  return `rule a { strings: $a = "${text}" condition: $a }`;
}

t.test('it is that of databases and limits, wherever and whenever they were loaded', async (t) => {
  async function identityOf(files: Record<string, string>, options: Partial<SignatureOptions> = {}) {
    const directories = [databaseFolder(t, files)];
    const signatures = loadSignatures({ directories, scanTimeoutMs: 60_000, wantsIdentity: true, ...options });
    const { identity } = await signatures.ready();
    await signatures.stop();
    return identity;
  }
  const one = await identityOf({ 'a.ndb': database });
  t.match(one, /^[0-9a-f]{64}$/);
  t.equal(await identityOf({ 'a.ndb': database }), one);
  const others = [
    await identityOf({ 'b.ndb': database }),
    await identityOf({ 'a.ndb': bodySignature('Test.A', 'another mark of this test') }),
    await identityOf({ 'a.ndb': database }, { limits: { maxScanSizeBytes: 100 * MIB } }),
    await identityOf({ 'a.ndb': database }, { scanTimeoutMs: 50_000 }),
  ];
  t.equal(new Set([one, ...others]).size, others.length + 1);
  t.notOk(others.includes(null));
  t.equal(await identityOf({ 'a.ndb': database }, { wantsIdentity: false }), null);
});

t.test('the rules in it are those that serve, not those that came while the rest was loaded', async (t) => {
  const [older, newer] = [rule('older'), rule('newer')];
  async function identityOf(before: string, meanwhile: string) {
    const folder = databaseFolder(t, { 'a.ndb': database, 'a.yar': before });
    const temporaryDirectory = temporaryFolder(t);
    const order: BuildOrder = {
      directories: [folder],
      // Asked for when the rules are loaded and nothing else is.
      get temporaryDirectory() {
        writeFileSync(join(folder, 'a.yar'), meanwhile);
        return temporaryDirectory;
      },
      scanTimeoutMs: 60_000,
      wantsIdentity: true,
      warn: t.fail,
    };
    return (await buildClamav(order)).engine.identity;
  }
  const [olderServes, newerServes] = await Promise.all([identityOf(older, newer), identityOf(newer, newer)]);
  t.match(olderServes, /^[0-9a-f]{64}$/);
  t.not(olderServes, newerServes);
});

t.test('libraries are part of it, and nobody can say it when one of them was replaced since', async (t) => {
  const before = await scannerDigest();
  t.match(before, /^[0-9a-f]{64}$/);
  t.equal(await scannerDigest(), before);
  // By its name, a library that scans unpack with.
  const library = join(temporaryFolder(t), 'libz-of-this-test.so');
  copyFileSync(socketsAddonPath, library);
  process.dlopen({ exports: {} }, library);
  const after = await scannerDigest();
  t.match(after, /^[0-9a-f]{64}$/);
  t.not(after, before);
  rmSync(library);
  t.equal(await scannerDigest(), null);
});
