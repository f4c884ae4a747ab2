// What signature files say of themselves: which are databases, their version, when they were built.
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import {
  contentDigest,
  dailyBuiltAt,
  databaseFiles,
  describeDatabases,
  expectedSignatures,
  fingerprint,
  isRuleFile,
} from '../../src/engine/databases.js';
import { ownRulesDirectory, ownSignaturesDirectory } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { databaseFolder } from '../native/engine.js';

function container(version: number, builtAt: number): string {
  return `ClamAV-VDB:01 Jan 2026 00-00 +0000:${version}:100:90:md5:signature:builder:${builtAt}`.padEnd(512);
}

t.test('only databases are listed, in order', async (t) => {
  const folder = databaseFolder(t, { 'README.md': '', 'b.ndb': '', 'a.ldb': '', 'freshclam.dat': '', 'a.ldb.bak': '' });
  t.same(await databaseFiles(folder), [join(folder, 'a.ldb'), join(folder, 'b.ndb')]);
});

t.test('the case of a name says nothing, and settings of the engine count as databases', async (t) => {
  const names = ['A.NDB', 'B.Cvd', 'c.YAR', 'd.cfg', 'e.CFG', 'f.pwdb'];
  const folder = databaseFolder(
    t,
    Object.fromEntries([...names, 'g.CFGX', 'cfg'].map((name) => [name, container(7, 9)])),
  );
  const paths = await databaseFiles(folder);
  t.strictSame(paths, names.map((name) => join(folder, name)).sort());
  t.strictSame(paths.filter(isRuleFile), [join(folder, 'c.YAR')]);
  const { files } = await describeDatabases([join(folder, 'B.Cvd')]);
  t.match(files, [{ container: { version: 7 }, builtAt: 9 }], 'its header is read');
});

t.test('a pipe or a folder with the name of a database is refused, before anybody reads it', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': 'one' });
  for (const [make, name] of [
    ['mkfifo', 'b.yar'],
    ['mkdir', 'c.ndb'],
  ] as const) {
    execFileSync(make, [join(folder, name)]);
    await t.rejects(databaseFiles(folder), { message: `${join(folder, name)} is not a file` });
    await t.rejects(fingerprint([folder]), { message: /is not a file$/ });
    rmSync(join(folder, name), { recursive: true });
  }
  symlinkSync('a.ndb', join(folder, 'd.ndb'));
  symlinkSync('nowhere', join(folder, 'e.ndb'));
  t.equal((await databaseFiles(folder)).length, 3);
});

t.test('the digest of contents is that of names, sizes and bytes, wherever they lie', async (t) => {
  const of = async (files: Record<string, string>): Promise<string> =>
    contentDigest(await databaseFiles(databaseFolder(t, files)));
  const one = await of({ 'a.ndb': 'x', 'b.ndb': 'yz' });
  t.match(one, /^[0-9a-f]{64}$/);
  t.equal(await of({ 'a.ndb': 'x', 'b.ndb': 'yz' }), one, 'another folder, another time');
  const others = [
    { 'a.ndb': 'x' },
    { 'a.ndb': 'x', 'c.ndb': 'yz' },
    { 'a.ndb': 'x', 'b.ndb': 'yy' },
    { 'a.ndb': 'xy', 'b.ndb': 'z' },
    // In a row the names and bytes are the same; what tells them apart are the sizes between them.
    { 'a.ndb': 'xb.ndbyz' },
    { 'a.ndb': 'xb.ndb\u0000yz' },
    { 'a.ndb': 'xb.ndb\u00002\u0000yz' },
  ];
  t.equal(new Set([one, ...(await Promise.all(others.map(of)))]).size, others.length + 1);
  await t.rejects(contentDigest([join(temporaryFolder(t), 'missing.ndb')]), { code: 'ENOENT' });
});

t.test('official databases give their highest version and newest build time', async (t) => {
  const folder = databaseFolder(t, {
    'main.cvd': container(63, 1_700_000_000),
    'daily.cld': container(27_000, 1_760_000_000),
    'ignored.txt': 'x',
  });
  t.match(await describeDatabases(await databaseFiles(folder)), {
    signatureVersion: 'daily:27000',
    signaturesBuiltAt: 1_760_000_000,
    files: [
      { container: { version: 27_000, signatureCount: 100 }, builtAt: 1_760_000_000 },
      { container: { version: 63 }, builtAt: 1_700_000_000 },
    ],
  });
});

t.test('other files beside them are part of the version, and no part of its time', async (t) => {
  const own = '# built: 2026-01-01T00:00:00\nx';
  const folder = databaseFolder(t, { 'daily.cvd': container(27_000, 1_700_000_000), 'own.ndb': own });
  utimesSync(join(folder, 'own.ndb'), 1_760_000_000, 1_760_000_000);
  const described = await describeDatabases(await databaseFiles(folder));
  t.match(described, { signatureVersion: /^daily:27000\+[0-9a-f]{8}$/, signaturesBuiltAt: 1_700_000_000 });
});

t.test(
  'without an official one the newest file counts that says when it was built, never its time on disk',
  async (t) => {
    const built = async (files: Record<string, string>): Promise<number | null> =>
      (await describeDatabases(await databaseFiles(databaseFolder(t, files)))).signaturesBuiltAt;
    t.equal(await built({ 'a.ndb': 'x' }), null);
    t.equal(await built({ 'a.ndb': '# built: 2026-99-01T00:00:00\nx' }), null);
    t.equal(await built({ 'a.ndb': 'x\n# built: 2026-01-01T00:00:00\n' }), null, 'in the first line only');
    const dated = {
      'a.ndb': '# built: 2026-01-01T00:00:00\nx',
      'b.yar': '// built: 2026-01-02T00:00:00\r\nx',
      'c.fp': 'x',
    };
    t.equal(await built(dated), Date.UTC(2026, 0, 2) / 1000);
  },
);

t.test('the files that ship say when they were built', async (t) => {
  const paths = [...(await databaseFiles(ownSignaturesDirectory)), join(ownRulesDirectory, 'sluice.yar')];
  const { files } = await describeDatabases(paths);
  t.equal(files.length, 3);
  for (const { path, builtAt } of files) t.ok(builtAt !== null && builtAt > Date.UTC(2026, 10, 1) / 1000, path);
});

t.test('how many signatures are expected is near enough for progress', async (t) => {
  const of = async (files: Record<string, string>): Promise<number> =>
    expectedSignatures(await databaseFiles(databaseFolder(t, files)));
  const lines = Array.from({ length: 30_000 }, (_, index) => `Test.N${index}:0:*:${'ab'.repeat(10 + (index % 7))}\n`);
  const estimated = await of({ 'a.ndb': lines.join('') });
  t.ok(Math.abs(estimated - lines.length) < lines.length / 20, `${estimated} of ${lines.length}`);
  t.equal(await of({ 'a.ndb': 'one\ntwo\n', 'daily.cvd': container(1, 5) }), 2 + 100);
  t.equal(await of({ 'a.ndb': '' }), 1, 'there is no progress of nothing');
  t.equal(await of({ 'a.ndb': 'one line without an end' }), 1);
});

t.test('a name or a byte that changes is another version', async (t) => {
  const variants = [{ 'a.ndb': 'x' }, { 'b.ndb': 'x' }, { 'a.ndb': 'y' }, { 'a.ndb': '', 'x.ndb': '' }];
  const versions = await Promise.all(
    variants.map(async (files) => {
      const { signatureVersion } = await describeDatabases(await databaseFiles(databaseFolder(t, files)));
      return signatureVersion;
    }),
  );
  t.equal(new Set(versions).size, variants.length);
});

t.test('the age is that of the newest daily database, and only of official ones', async (t) => {
  const of = async (files: Record<string, string>): Promise<number | null> =>
    dailyBuiltAt((await describeDatabases(await databaseFiles(databaseFolder(t, files)))).files);
  t.equal(await of({ 'daily.cvd': container(1, 5), 'daily.cld': container(2, 9), 'main.cvd': container(3, 99) }), 9);
  t.equal(await of({ 'main.cvd': container(3, 99), 'own.ndb': 'x' }), null);
  t.equal(await of({ 'daily.ndb': 'x' }), null, 'a loose file has no build time');
});

t.test('a fingerprint changes with whatever happens to a database, and with nothing else', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': 'one', 'b.ndb': 'two' });
  const path = join(folder, 'a.ndb');
  const seen = [await fingerprint([folder])];
  const changes: readonly (() => void)[] = [
    () => writeFileSync(path, 'uno'),
    () => utimesSync(path, 1, 1),
    () => renameSync(path, join(folder, 'c.ndb')),
    () => rmSync(join(folder, 'c.ndb')),
    () => writeFileSync(join(folder, 'd.ndb'), ''),
  ];
  for (const change of changes) {
    change();
    seen.push(await fingerprint([folder]));
  }
  t.equal(new Set(seen).size, seen.length);
  writeFileSync(join(folder, 'freshclam.dat'), 'x');
  t.equal(await fingerprint([folder]), seen.at(-1));
});
