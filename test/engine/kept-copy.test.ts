// Copies of the databases: each process has its own, so that two that load at a time never see each other's files.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createKeptCopy } from '../../src/engine/kept-copy.js';
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
  const [orphan, living] = [`process-${gone}-1700000000000-0`, `process-${process.ppid}-1700000000000-0`];
  for (const name of [orphan, living]) mkdirSync(join(parent, name));
  const copy = createKeptCopy(() => [databases], parent);
  await copy.stage();
  t.notOk(existsSync(join(parent, orphan)));
  t.ok(existsSync(join(parent, living)));
});
