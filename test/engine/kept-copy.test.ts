// Copies of the databases: each process has its own, so that two that load at a time never see each other's files.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createKeptCopy } from '../../src/engine/kept-copy.js';
import { ownedName } from '../../src/engine/owned.js';
import { after } from '../fixtures/later.js';
import { bodySignature, databaseFolder, temporaryFolder } from '../native/engine.js';

t.test('what one has staged or kept stays as it is while another stages, keeps and is removed', async (t) => {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'first') });
  const parent = temporaryFolder(t);
  const [one, other] = [createKeptCopy(() => [databases], parent), createKeptCopy(() => [databases], parent)];
  const [staged = ''] = await one.stage();
  const first = readFileSync(join(staged, 'a.ndb'));
  writeFileSync(join(databases, 'a.ndb'), bodySignature('Test.B', 'second'));
  await other.stage();
  await other.keepStaged();
  t.ok(readFileSync(join(staged, 'a.ndb')).equals(first), 'staged');
  const [kept = ''] = await one.keepStaged();
  await other.stage();
  await other.remove();
  t.ok(readFileSync(join(kept, 'a.ndb')).equals(first), 'kept');
  await one.remove();
  t.strictSame(readdirSync(parent), []);
});

t.test('those of processes that are gone are removed, those of living ones are not', async (t) => {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'mark') });
  const parent = temporaryFolder(t);
  const gone = spawnSync(process.execPath, ['--version']).pid;
  const [, , namespace] = ownedName('').split('-');
  const [orphan = '', living = ''] = [gone, process.ppid].map((pid) => `process-${pid}-1700000000000-${namespace}-0`);
  for (const name of [orphan, living]) mkdirSync(join(parent, name));
  const copy = createKeptCopy(() => [databases], parent);
  await copy.stage();
  t.notOk(existsSync(join(parent, orphan)));
  t.ok(existsSync(join(parent, living)));
});

t.test('tending a copy that was never made, or can not be looked for, harms nobody', async (t) => {
  const parent = join(temporaryFolder(t), 'not', 'there');
  createKeptCopy(() => [], parent).tend();
  t.notOk(existsSync(parent));
});

t.test('two in different containers leave each other alone while both live', async (t) => {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'mark') });
  const parent = temporaryFolder(t);
  const copy = createKeptCopy(() => [databases], parent);
  const [staged = ''] = await copy.stage();
  const module = new URL('../../src/engine/kept-copy.js', import.meta.url).href;
  const script = `
    const { createKeptCopy } = await import('${module}');
    await createKeptCopy(() => ['${databases}'], '${parent}').stage();`;
  const other = ['-rpf', '--mount-proc', process.execPath, '--input-type=module', '--eval', script];
  const { status, stderr } = spawnSync('unshare', other, { encoding: 'utf8' });
  t.equal(status, 0, stderr);
  t.ok(existsSync(join(staged, 'a.ndb')), 'there our pid is nobody’s');
  await copy.stage();
  t.equal(readdirSync(parent).length, 2, 'and its pid is nobody’s here');

  const longAgo = Date.now() / 1000 - 3600;
  for (const name of readdirSync(parent)) utimesSync(join(parent, name), longAgo, longAgo);
  copy.tend();
  after(t, 900_000);
  copy.tend();
  const [left = '', ...more] = readdirSync(parent);
  t.strictSame(more, [], 'the other one has shown no life for a quarter of an hour');
  t.ok(statSync(join(parent, left)).mtimeMs > longAgo * 1000 + 1_800_000, 'we do');
});
