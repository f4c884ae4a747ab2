// What root's commands put into the data folder of a service that runs as another user: it is that user's, also where root keeps its own files to itself.
import { spawnSync } from 'node:child_process';
import { linkSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { chown } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { mainPath } from '../../src/paths.js';
import { start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { withoutRoot } from '../fixtures/other-user.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { startMirror } from '../fixtures/signature-mirror.js';
import { upload } from '../fixtures/upload.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const notRoot: string | false = process.getuid?.() === 0 ? false : 'Only root can have the data folder of another user';
const NOBODY = 65534;

async function command(...args: string[]) {
  return await start(t, mainPath, args, { cwd: tmpdir(), env: { PORT: '1' } }).ended;
}

/** What is in the folder and not nobody's. */
function foreignIn(folder: string): string[] {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return paths.filter((path) => lstatSync(join(folder, path)).uid !== NOBODY);
}

t.test('a store that was restored, signatures and what was learned are the service’s', { skip: notRoot }, async (t) => {
  const before = process.umask(0o077);
  t.teardown(() => process.umask(before));
  const folder = temporaryFolder(t);
  const file = join(folder, 'one.backup');
  const first = await startServer({ t });
  t.equal((await command('backup', file, '--data-dir', join(first.directory, 'data'))).code, 0);
  await first.stop();

  const place = temporaryFolder(t);
  const data = join(place, 'data');
  mkdirSync(data);
  for (const path of [place, data]) await chown(path, NOBODY, NOBODY);
  t.match(await command('restore', file, '--data-dir', data), { code: 0 });
  t.strictSame(foreignIn(data), [], 'the database');

  const url = await startMirror(t, { 'new.ndb': bodySignature('Test.New', 'a new mark') });
  const update = ['signatures', 'update', '--from', `${url}/new.ndb`, '--data-dir', data];
  t.match(await command(...update), { code: 0, stdout: 'new.ndb is new' });
  t.strictSame(foreignIn(data), [], 'signatures');

  const clean = databaseFolder(t, { one: 'clean', other: 'content' });
  t.match(await command('signatures', 'tune', clean, '--data-dir', data), { code: 0 });
  t.strictSame(foreignIn(data), [], 'what was learned');

  // What lies in a folder that only root can enter, nobody else can start: it is root's then, and the owners above say the rest.
  const [by, args] = withoutRoot('env', []);
  const isReachable = spawnSync(by, [...args, 'test', '-r', mainPath]).status === 0;
  const server = await startServer({ t, directory: place, ...(isReachable ? { by: [by, ...args] } : {}) });
  t.equal((await upload(server.url, 'after', { key: API_KEY })).status, 200);
  t.match((await upload(server.url, 'with a new mark', { key: API_KEY })).body, { virusName: 'Test.New.UNOFFICIAL' });
  t.notMatch(server.output(), 'without gates');
  await server.stop();
});

t.test('a file with a second name stays whose it is', { skip: notRoot }, async (t) => {
  const data = temporaryFolder(t);
  const elsewhere = temporaryFolder(t);
  writeFileSync(join(elsewhere, 'another'), 'root’s');
  mkdirSync(join(data, 'gates'));
  linkSync(join(elsewhere, 'another'), join(data, 'gates', 'second'));
  await chown(data, NOBODY, NOBODY);
  const clean = databaseFolder(t, { one: 'clean' });
  t.match(await command('signatures', 'tune', clean, '--data-dir', data), { code: 0 });
  t.equal(lstatSync(join(elsewhere, 'another')).uid, 0);
  t.strictSame(foreignIn(data), ['gates/second']);
});
