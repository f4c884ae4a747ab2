// The lock on a folder, given back.
import { execFileSync } from 'node:child_process';
import { closeSync, fstatSync, openSync, readdirSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { isGone, makeFolderAsync } from '../../src/paths.js';
import { lockDataDirectory, tryLock } from '../../src/store/data-lock.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { until } from '../fixtures/until.js';

t.test('a lock that is given back twice closes nothing of others', async (t) => {
  const directory = temporaryFolder(t);
  const release = await lockDataDirectory(directory, { warn: () => undefined, error: () => undefined });
  await release();
  // One of them has the number that the lock's folder had.
  const others = Array.from({ length: 64 }, () => openSync(directory, 'r'));
  await release();
  for (const descriptor of others) t.doesNotThrow(() => fstatSync(descriptor), `${descriptor} is open`);
  others.forEach(closeSync);
});

t.test('folders are made, and where there can be none that is said', async (t) => {
  const directory = temporaryFolder(t);
  const folder = join(directory, 'a', 'b');
  await makeFolderAsync(folder);
  await makeFolderAsync(folder);
  t.equal(statSync(folder).mode & 0o777, 0o700);
  // Root has all rights there; the other one is a link to nothing.
  symlinkSync(join(directory, 'none'), join(directory, 'link'));
  for (const path of ['/proc/none', '/proc/none/below', '/proc/self/fd/none', join(directory, 'link', 'below')]) {
    await t.rejects(makeFolderAsync(path), { code: 'ENOENT' }, path);
  }
  await t.rejects(makeFolderAsync('/dev/null/below'), { code: 'ENOTDIR' });
});

t.test('a lock whose folder somebody removes is made anew, and nobody else gets the directory', async (t) => {
  const directory = temporaryFolder(t);
  const folder = join(directory, 'open');
  const said: unknown[] = [];
  const log = { warn: (...line: unknown[]) => said.push(line), error: (...line: unknown[]) => said.push(line) };
  const release = await lockDataDirectory(directory, log, 5);
  const claims = (): readonly string[] => (isGone(folder) ? [] : readdirSync(folder));
  const [first] = claims();
  rmSync(folder, { recursive: true });
  await until(() => said.length > 0);
  t.match(said, [[{ folder: directory }, /it is locked again/]]);
  t.equal(claims().length, 1);
  t.not(claims()[0], first);
  await t.rejects(lockDataDirectory(directory, log), { name: 'StoreError', message: /is in use by the process/ });
  // Where somebody else was faster it says so once, and goes on looking.
  const elsewhere = temporaryFolder(t);
  const other = await tryLock(elsewhere, 'other');
  rmSync(folder, { recursive: true });
  renameSync(join(elsewhere, 'open'), folder);
  await until(() => said.length > 1);
  t.match(said[1], [{ reason: /is in use by the process/ }, 'somebody has removed the lock on the data folder']);
  if (other.locked) await other.release();
  rmSync(folder, { recursive: true });
  await until(() => said.length > 2);
  t.match(said[2], [{ folder: directory }, /it is locked again/]);
  await release();
  t.same(claims(), []);
});

t.test(
  'what a process holds on a disk that turns read-only is given back all the same',
  { skip: noNamespaces },
  (t) => {
    const disk = temporaryFolder(t);
    const script = fileURLToPath(new URL('read-only-disk.js', import.meta.url));
    const mounted = 'mount -t tmpfs none "$3" && exec "$@"';
    const output = execFileSync('unshare', ['-rm', 'sh', '-c', mounted, 'sh', process.execPath, script, disk]);
    const said = JSON.parse(String(output));
    t.match(said, { contents: 'given back', lock: 'given back', next: 'given back' });
    t.end();
  },
);
