// Loading: what an engine says of itself, progress, and every database that can't be loaded; the old one goes on serving.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { defaultEngineLimits, EngineLoadError, engineInfo, scanBuffer } from '../../src/engine/clamav/addon.js';
import { bodySignature, databaseFolder, load, loadEngine } from './engine.js';

const MARK = 'a mark of this test';

t.test('before the first load there is no engine', async (t) => {
  t.equal(engineInfo(), null);
  t.throws(() => scanBuffer(Buffer.from('x')), { message: 'No engine is loaded' });
});

t.test('a loaded engine says what it is', async (t) => {
  const folder = databaseFolder(t, {
    'a.ndb': bodySignature('Test.A', MARK) + bodySignature('Test.B', 'another mark'),
  });
  const info = await load(t, [folder]);
  t.match(info, { engineVersion: /^\d+\.\d+/, signatureCount: 2, signatureVersion: /^[0-9a-f]{8}$/, warnings: [] });
  t.ok(info.loadMillis > 0);
  t.equal(info.signaturesBuiltAt, null, 'the file does not say it');
  const { files, digest } = info;
  const { epoch, ...facts } = { ...engineInfo() };
  t.match(info, { ...facts, nativeEpoch: epoch });
  t.ok(epoch);
  t.equal(digest, null, 'it was not wanted');
  t.match(files, [{ path: join(folder, 'a.ndb'), container: null }]);
});

t.test('the version follows the content of the files', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) });
  const first = await load(t, [folder]);
  t.equal((await load(t, [folder])).signatureVersion, first.signatureVersion);
  writeFileSync(join(folder, 'a.ndb'), bodySignature('Test.Z', MARK));
  t.not((await load(t, [folder])).signatureVersion, first.signatureVersion);
});

t.test('a file is read once to load it and once to name it: libclamav does not count its lines before', async (t) => {
  const digestOf = (index: number): string => index.toString(16).padStart(64, '0');
  const lines = Array.from({ length: 50_000 }, (_, index) => `${digestOf(index)}:${index + 1}:Test.Hash-${index}:73\n`);
  const text = lines.join('');
  const folder = databaseFolder(t, { 'a.hsb': text });
  const readBytes = (): number => Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
  const before = readBytes();
  const { signatureCount } = await load(t, [folder]);
  t.equal(signatureCount, lines.length);
  t.ok(readBytes() - before < 2.5 * text.length, `${readBytes() - before} bytes read of a file of ${text.length}`);
});

t.test('an ignore list of one folder holds for the signatures of another', async (t) => {
  const signatures = databaseFolder(t, {
    'a.ndb': bodySignature('Test.Ignored', MARK) + bodySignature('Test.Kept', 'another mark'),
  });
  const own = databaseFolder(t, { 'own.ign2': 'Test.Ignored\n', 'own.ndb': bodySignature('Test.Own', 'an own mark') });
  await load(t, [signatures, own]);
  t.equal(scanBuffer(Buffer.from(MARK)).code, 0);
  t.equal(scanBuffer(Buffer.from('another mark')).virusName, 'Test.Kept.UNOFFICIAL');
});

t.test('what cannot be loaded is refused with its reason, and the old engine goes on', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.Old', MARK) })]);
  const before = engineInfo();
  const noise = Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 7919) & 0xff));
  const header = `ClamAV-VDB:01 Jan 2026 00-00 +0000:5:100:90:${'0'.repeat(32)}:${'A'.repeat(100)}:nobody:1767225600`;
  const cases: readonly (readonly [string, Record<string, string | Uint8Array>, RegExp])[] = [
    ['an empty folder', {}, /no signature database/],
    ['a folder without databases', { 'README.md': 'hello' }, /no signature database/],
    ['an empty database', { 'a.ndb': '' }, /no signature|empty/i],
    [
      'a line that is no signature',
      { 'a.ndb': `${bodySignature('Test.A', 'x mark')}not a signature\n` },
      /line 2.*a\.ndb/s,
    ],
    ['a signature with broken hex', { 'a.ndb': 'Test.A:0:*:zzzz\n' }, /a\.ndb/],
    ['a broken logical signature', { 'a.ldb': 'Test.A;Target:0;(0&1;61626364\n' }, /a\.ldb/],
    ['a hash of the wrong length', { 'a.hdb': '1234:10:Test.A\n' }, /a\.hdb/],
    ['noise for an official database', { 'daily.cvd': noise }, /daily\.cvd/],
    ['a truncated official database', { 'main.cvd': header }, /main\.cvd/],
    [
      'an official database with a false signature',
      { 'main.cvd': header.padEnd(512) + noise.toString('latin1') },
      /main\.cvd/,
    ],
    [
      'an empty official database beside a good file',
      { 'main.cvd': '', 'a.ndb': bodySignature('Test.A', 'x mark') },
      /main\.cvd/,
    ],
    [
      'a name that is not UTF-8',
      { 'a.ndb': Buffer.from(bodySignature('Test.Odd\xff\xfe', MARK), 'latin1') },
      /not UTF-8: Test\.Odd/,
    ],
    ['a hash with such a name', { 'a.hdb': Buffer.from(`${'a'.repeat(32)}:10:Test.\xc3\n`, 'latin1') }, /not UTF-8/],
    [
      'a logical one with such a name',
      { 'a.ldb': Buffer.from('Test.\x80;Target:0;0;61626364\n', 'latin1') },
      /not UTF-8/,
    ],
    ['a broken YARA rule', { 'a.yar': 'rule broken { condition: nonsense }\n' }, /a\.yar/],
  ];
  for (const [what, files, reason] of cases) {
    const folder = databaseFolder(t, files);
    const failure = await load(t, [folder]).then(
      () => null,
      (error: unknown) => error,
    );
    t.ok(failure instanceof EngineLoadError, `${what} is refused`);
    if (failure instanceof Error) {
      t.match(failure.message, reason, what);
      t.ok(failure.message.includes(folder), 'the folder is named');
    }
  }
  await t.rejects(load(t, ['/nowhere/at/all']), { name: 'EngineLoadError', message: /\/nowhere\/at\/all/ });
  t.same(engineInfo(), before);
  t.equal(scanBuffer(Buffer.from(MARK)).virusName, 'Test.Old.UNOFFICIAL');
});

t.test('a second folder that fails refuses the whole', async (t) => {
  const good = databaseFolder(t, { 'a.ndb': bodySignature('Test.Good', MARK) });
  const bad = databaseFolder(t, { 'a.hdb': 'garbage\n' });
  await t.rejects(load(t, [good, bad]), { name: 'EngineLoadError', message: new RegExp(bad) });
});

t.test('a temporary folder that is missing or a file is refused', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) });
  for (const temporaryDirectory of [join(folder, 'missing'), join(folder, 'a.ndb')]) {
    await t.rejects(loadEngine({ directories: [folder], temporaryDirectory, limits: defaultEngineLimits }), {
      name: 'EngineLoadError',
      message: new RegExp(temporaryDirectory),
    });
  }
});

t.test('loads that are asked for at once all end, and the last one serves', async (t) => {
  const folders = ['Test.One', 'Test.Two', 'Test.Three'].map((name) =>
    databaseFolder(t, { 'a.ndb': bodySignature(name, MARK) }),
  );
  // Each load tells of its end by a queue of its own: who hears of an older one last is refused.
  for (const end of await Promise.allSettled(folders.map((folder) => load(t, [folder])))) {
    if (end.status === 'rejected') t.match(end.reason, { message: 'A newer engine serves already' });
  }
  t.match(scanBuffer(Buffer.from(MARK)).virusName, /^Test\.(One|Two|Three)\.UNOFFICIAL$/);
  const info = await load(t, folders.slice(2));
  t.equal(info.signatureCount, 1);
  t.equal(scanBuffer(Buffer.from(MARK)).virusName, 'Test.Three.UNOFFICIAL');
});

t.test('a reload is seen by the next scan of the same content', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Other', 'some other mark') });
  await load(t, [folder]);
  t.equal(scanBuffer(Buffer.from(MARK)).code, 0);
  writeFileSync(join(folder, 'a.ndb'), readFileSync(join(folder, 'a.ndb'), 'utf8') + bodySignature('Test.New', MARK));
  await load(t, [folder]);
  t.equal(scanBuffer(Buffer.from(MARK)).virusName, 'Test.New.UNOFFICIAL');
});
