// The embedded database where a machine is not as it should be: as root, without a name, on a disk that is full or can't be written.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { databaseAccount } from '../../src/store/embedded/account.js';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { seedEmbedded } from '../fixtures/embedded-template.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { noNamespaces } from '../fixtures/namespaces.js';

const opener = fileURLToPath(new URL('../fixtures/embedded-opener.js', import.meta.url));
const fullDisk = fileURLToPath(new URL('full-disk.js', import.meta.url));
const isRoot = process.getuid?.() === 0;

/** Runs the program as `unshare` and its arguments have it, and returns its one line. */
function runUnder(prefix: readonly string[], program: string, args: readonly string[]): unknown {
  const { stdout, stderr } = spawnSync('unshare', [...prefix, process.execPath, program, ...args], {
    encoding: 'utf8',
  });
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout);
}

function ownerOf(path: string): number {
  return statSync(path).uid;
}

async function uidOfServer(t: Test, folder: string, user: string | null): Promise<number> {
  const embedded = await startEmbedded({ dataDirectory: folder, user });
  t.teardown(() => embedded.stop());
  const uid = Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${embedded.pid}/status`, 'utf8'))?.[1]);
  await embedded.stop();
  return uid;
}

t.test(
  'it runs as this user, as root as nobody or the one that is named, and as the owner of what is there',
  async (t) => {
    const folder = temporaryFolder(t);
    const data = join(folder, 'postgres', '18');
    const own = process.getuid?.() ?? 0;
    const expected = isRoot ? 65_534 : own;
    t.equal(await uidOfServer(t, folder, null), expected);
    t.equal(ownerOf(data), expected);
    t.equal(ownerOf(join(folder, 'postgres')), own, 'what holds its folders is ours');
    const [name, uid] = isRoot ? ['postgres', Number(execFileSync('id', ['-u', 'postgres']))] : [String(own), own];
    t.equal(await uidOfServer(t, folder, name), uid);
    t.equal(ownerOf(join(data, 'base')), uid);
    t.equal(await uidOfServer(t, folder, null), uid, 'root that looks into the folder of a service leaves it to it');
    const message = isRoot ? 'DATABASE_USER is root' : 'DATABASE_USER is root, and only root can start';
    await t.rejects(startEmbedded({ dataDirectory: folder, user: 'root' }), { name: 'StoreError', message });
    const nobody = { name: 'StoreError', message: 'DATABASE_USER is no-such-user, and there is no such user' };
    await t.rejects(startEmbedded({ dataDirectory: folder, user: 'no-such-user' }), nobody);
  },
);

t.test('it finds its programs in a folder that is closed to others', (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'program');
  writeFileSync(path, '', { mode: 0o700 });
  const [program = '', ...args] = [...databaseAccount(null, join(folder, 'none')).prefix, 'test', '-x', path];
  t.equal(spawnSync(program, args).status, 0);
  t.end();
});

t.test('its environment has nothing of ours', async (t) => {
  const folder = temporaryFolder(t);
  await seedEmbedded(folder);
  process.env['SECRET_OF_OURS'] = 'secret';
  const embedded = await startEmbedded({ dataDirectory: folder });
  t.teardown(() => embedded.stop());
  const entries = readFileSync(`/proc/${embedded.pid}/environ`, 'utf8').split('\0');
  const names = entries.map((entry) => entry.split('=')[0]).filter((name) => name !== '');
  t.same(names.sort(), ['LC_ALL', 'PATH', 'TZ']);
});

t.test(
  'an account without a name makes it all the same where it may, and otherwise says what to do',
  { skip: noNamespaces },
  async (t) => {
    const nameless = ['--user', '--map-user=54321', '--map-group=54321'];
    t.same(runUnder(nameless, opener, [temporaryFolder(t)]), { message: 'opened' });
    const limited = ['-r', 'sh', '-c', 'echo 1 > /proc/sys/user/max_user_namespaces && exec unshare "$@"', 'sh'];
    t.match(runUnder([...limited, ...nameless], opener, [temporaryFolder(t)]), {
      message:
        /^The embedded database can't be made by the user 54321, who has no name: add one to \/etc\/passwd, or set /,
    });
    const seeded = temporaryFolder(t);
    await seedEmbedded(seeded);
    if (isRoot) execFileSync('chown', ['-R', '0:0', seeded]);
    t.same(runUnder([...limited, ...nameless], opener, [seeded]), { message: 'opened' }, 'what is there needs no name');
  },
);

t.test('a root that can be nobody else says what to do', { skip: noNamespaces }, async (t) => {
  t.match(runUnder(['-r'], opener, [temporaryFolder(t)]), {
    message: /can't .* the user 65534.*: start Sluice as another user, or set DATABASE_URL$/,
  });
});

/** Its arguments: size, folder, program, script, what the script is to do. Not as the root that may mount: PostgreSQL refuses it. */
const ON_TMPFS =
  'mount -t tmpfs -o size=$1 none "$2" && exec unshare --user --map-user=65534 --map-group=65534 -- "$3" "$4" "$2" "$5"';

function onDisk(t: Test, size: string, mode: string): unknown {
  const disk = join(temporaryFolder(t), 'disk');
  mkdirSync(disk);
  return runUnder(['-rm', 'sh', '-c', ON_TMPFS, 'sh', size, disk], fullDisk, [mode]);
}

t.test('a disk that fills up refuses what it has no room for, and loses nothing', { skip: noNamespaces }, async (t) => {
  const seen = onDisk(t, '64m', 'later');
  t.match(seen, { refusedBy: /53100|57P0\d|CONNECTION_CLOSED|ECONNREFUSED|ENOENT/, lost: [] });
});

t.test('a disk that is full from the start is reported', { skip: noNamespaces }, async (t) => {
  t.match(onDisk(t, '8m', 'from the start'), { message: /No space left on device|ENOSPC/ });
});

t.test('a disk that cannot be written is reported', { skip: noNamespaces }, async (t) => {
  const disk = join(temporaryFolder(t), 'disk');
  mkdirSync(disk);
  const prefix = ['-rm', 'sh', '-c', 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"', 'sh', disk];
  t.match(runUnder(prefix, opener, [disk]), {
    message: /^The data directory .* can't be written: EROFS/,
  });
});
