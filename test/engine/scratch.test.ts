// The engine's temporary folder: made, removed, and those of processes that are gone removed with it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { makeScratch, processFolderName, removeOrphans, removeOwnFolder, showLife } from '../../src/engine/scratch.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { withoutRoot } from '../fixtures/other-user.js';
import type { Tap } from '../fixtures/stores.js';

const starts = new WeakMap<Tap, number>();

/** On the clock that measures ages, so many milliseconds pass at once, counted from the first call in the test. */
function after(t: Tap, ms: number): void {
  const now = performance.now;
  const startedMs = starts.get(t) ?? now.call(performance);
  starts.set(t, startedMs);
  performance.now = () => startedMs + ms;
  t.teardown(() => {
    performance.now = now;
  });
}

interface Teardown {
  teardown(undo: () => void): void;
}

/** A process that has ended and been waited for, so that its pid is nobody's. */
function deadPid(): number {
  return spawnSync(process.execPath, ['--version']).pid;
}

/** The folder of a process of ours with that pid, as seen from where it counts, or from elsewhere. */
function nameOf(pid: number, elsewhere = false): string {
  const [, , namespace = ''] = processFolderName('').split('-');
  return `sluice-engine-${pid}-1700000000000-${elsewhere ? 'f00d'.repeat(3) : namespace}-abcdef`;
}

/** A folder beside the scratch folders, with something in it, as a process leaves it that was killed. */
function leftover(t: Teardown, name: string): string {
  const probe = makeScratch();
  const parent = dirname(probe.directory);
  probe.remove();
  const path = join(parent, name);
  mkdirSync(path);
  writeFileSync(join(path, 'unpacked'), 'x');
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

t.test('a folder of its own that only this user can enter, gone after its removal', async (t) => {
  const scratch = makeScratch();
  const other = makeScratch();
  t.not(scratch.directory, other.directory);
  t.equal(statSync(scratch.directory).mode & 0o777, 0o700);
  writeFileSync(join(scratch.directory, 'unpacked'), 'x');
  scratch.remove();
  t.notOk(existsSync(scratch.directory));
  t.ok(existsSync(other.directory), 'the other one is left alone');
  scratch.remove();
  other.remove();
});

t.test('what scans have left behind is swept away, and what they are at is not', async (t) => {
  const scratch = makeScratch();
  t.teardown(() => scratch.remove());
  for (const name of ['old', 'new']) {
    mkdirSync(join(scratch.directory, name));
    writeFileSync(join(scratch.directory, name, 'unpacked'), 'x');
  }
  const hourAgo = Date.now() / 1000 - 3600;
  for (const name of ['old', 'new']) utimesSync(join(scratch.directory, name), hourAgo, hourAgo);
  t.equal(await scratch.sweep(120_000), null);
  t.same(
    readdirSync(scratch.directory).sort(),
    ['new', 'old'],
    'the clock may have been set, or the machine have slept',
  );
  after(t, 60_000);
  utimesSync(join(scratch.directory, 'new'), hourAgo + 60, hourAgo + 60);
  t.equal(await scratch.sweep(120_000), null);
  t.same(readdirSync(scratch.directory).sort(), ['new', 'old']);
  after(t, 120_001);
  t.equal(await scratch.sweep(120_000), null);
  t.same(readdirSync(scratch.directory), ['new']);
  t.notOk(scratch.isGone());
  scratch.remove();
  t.match(await scratch.sweep(0), /can't be swept: ENOENT/);
  t.ok(scratch.isGone());
});

t.test('the folder of a process that is gone is removed at the next start', async (t) => {
  const orphan = leftover(t, nameOf(deadPid()));
  makeScratch().remove();
  t.notOk(existsSync(orphan));
});

t.test('the folder of an earlier process with our pid is removed, as after the restart of a container', async (t) => {
  const orphan = leftover(t, nameOf(process.pid));
  makeScratch().remove();
  t.notOk(existsSync(orphan));
});

t.test(
  'the folder of a process elsewhere is removed once it has shown no life for long, also later than at the start',
  async (t) => {
    const ours = makeScratch();
    t.teardown(() => ours.remove());
    const other = leftover(t, nameOf(deadPid(), true));
    makeScratch().remove();
    t.ok(existsSync(other), 'nobody here can say that it is gone');
    const longAgo = Date.now() / 1000 - 3600;
    for (const path of [other, ours.directory]) utimesSync(path, longAgo, longAgo);
    await ours.sweep(120_000);
    t.ok(
      existsSync(other),
      'its clock may differ, or this machine have slept: no sign since when counts, not its date',
    );
    after(t, 900_000);
    utimesSync(other, longAgo + 1, longAgo + 1);
    await ours.sweep(120_000);
    t.ok(existsSync(other), 'a sign of life');
    after(t, 1_799_000);
    await ours.sweep(120_000);
    t.ok(existsSync(other));
    after(t, 1_800_001);
    await ours.sweep(120_000);
    t.notOk(existsSync(other));
    t.ok(
      statSync(ours.directory).mtimeMs > longAgo * 1000 + 1_800_000,
      'and those elsewhere are shown that this one lives',
    );
  },
);

t.test('the folder of a living process is kept', async (t) => {
  const living = leftover(t, nameOf(process.ppid));
  const ours = makeScratch();
  makeScratch().remove();
  t.ok(existsSync(join(living, 'unpacked')), 'of another process');
  t.ok(existsSync(ours.directory), 'of this one');
  ours.remove();
});

t.test('a leftover that cannot be removed is reported and stops nothing', async (t) => {
  // Not where every other engine of this machine looks for leftovers too.
  const parent = temporaryFolder(t);
  chmodSync(parent, 0o777);
  const orphan = join(parent, nameOf(deadPid()));
  mkdirSync(join(orphan, 'in it'), { recursive: true });
  chmodSync(orphan, 0);
  // Root may remove anything: there it is somebody else's, who looks.
  const user = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);
  if (user === 65_534) chownSync(orphan, user, user);
  t.match(sweepAs(user, parent), `the leftover folder ${basename(orphan)} cannot be removed: E`);
  chmodSync(orphan, 0o700);
});

/** Arguments of Node. */
function sweeping(parent: string): string[] {
  const ownedUrl = new URL('../../src/engine/scratch.js', import.meta.url).href;
  const script = `
    const { removeOrphans } = await import(${JSON.stringify(ownedUrl)});
    console.log(removeOrphans(${JSON.stringify(parent)}, 'sluice-engine-').join());`;
  return ['--input-type=module', '--eval', script];
}

/** What removeOrphans says about the folder, as the user with that number. */
function sweepAs(uid: number, parent: string): string {
  const args = sweeping(parent);
  const program =
    process.getuid?.() === uid ? ([process.execPath, args] as const) : withoutRoot(process.execPath, args);
  const swept = spawnSync(...program, { encoding: 'utf8' });
  if (swept.status !== 0) throw new Error(swept.stderr);
  return swept.stdout.trim();
}

t.test('what two processes remove at once is nobody’s failure', async (t) => {
  const parent = temporaryFolder(t);
  for (let folder = 0; folder < 40; folder += 1) {
    const orphan = join(parent, `${nameOf(deadPid())}${folder}`);
    mkdirSync(orphan);
    for (let file = 0; file < 50; file += 1) writeFileSync(join(orphan, String(file)), '');
  }
  const other = spawn(process.execPath, sweeping(parent), { stdio: ['ignore', 'pipe', 'inherit'] });
  const said = text(other.stdout);
  while (readdirSync(parent).length === 40) await setImmediate();
  t.strictSame(removeOrphans(parent, 'sluice-engine-'), []);
  t.equal(await said, '\n');
  t.strictSame(readdirSync(parent), []);
});

t.test('a link of such a name, and links in a leftover, end as links: what they lead to stays', async (t) => {
  const parent = temporaryFolder(t);
  const victim = temporaryFolder(t);
  writeFileSync(join(victim, 'precious'), 'x');
  const link = join(parent, nameOf(deadPid()));
  symlinkSync(victim, link);
  const orphan = join(parent, nameOf(deadPid()));
  mkdirSync(join(orphan, 'in it'), { recursive: true });
  symlinkSync(victim, join(orphan, 'in it', 'link'));
  symlinkSync(join(victim, 'precious'), join(orphan, 'file'));
  t.equal(sweepAs(process.getuid?.() ?? 0, parent), '');
  t.ok(existsSync(join(victim, 'precious')));
  t.ok(existsSync(link), 'it is nobody’s leftover');
  t.notOk(existsSync(orphan));
});

t.test('a folder of another user is left alone, also by root', async (t) => {
  const parent = temporaryFolder(t);
  const foreign = join(parent, nameOf(deadPid()));
  mkdirSync(foreign);
  writeFileSync(join(foreign, 'unpacked'), 'x');
  if (process.getuid?.() === 0) {
    chownSync(foreign, 65_534, 65_534);
    t.equal(sweepAs(0, parent), '');
  } else {
    // A user who can't give a folder away needs one that is somebody else's.
    t.notOk(removeOwnFolder('/', 'tmp'));
    rmSync(foreign, { recursive: true });
    return;
  }
  t.ok(existsSync(join(foreign, 'unpacked')));
});

t.test('a leftover whose name becomes a link meanwhile takes nothing else with it', async (t) => {
  const parent = temporaryFolder(t);
  const victim = temporaryFolder(t);
  writeFileSync(join(victim, 'precious'), 'x');
  const [folder, link, name] = [join(parent, 'folder'), join(parent, 'link'), join(parent, 'name')];
  symlinkSync(victim, link);
  mkdirSync(folder);
  for (let index = 0; index < 50; index += 1) writeFileSync(join(folder, String(index)), 'x');
  renameSync(folder, name);
  // Another process changes one for the other, as fast as it can.
  const script = `const fs = require('node:fs'); for (;;) { try {
    fs.renameSync(${JSON.stringify(name)}, ${JSON.stringify(folder)}); fs.symlinkSync(${JSON.stringify(victim)}, ${JSON.stringify(name)});
    fs.unlinkSync(${JSON.stringify(name)}); fs.renameSync(${JSON.stringify(folder)}, ${JSON.stringify(name)});
  } catch { process.stdout.write('.'); } }`;
  const swapping = spawn(process.execPath, ['--eval', script], { stdio: ['ignore', 'ignore', 'inherit'] });
  t.teardown(() => swapping.kill('SIGKILL'));
  await once(swapping, 'spawn');
  const endMs = performance.now() + 1_000;
  while (performance.now() < endMs) {
    try {
      removeOwnFolder(parent, 'name');
    } catch (error) {
      t.match(error, { code: /^E(NOENT|NOTDIR|NOTEMPTY)$/ });
    }
    t.ok(existsSync(join(victim, 'precious')) || t.bailout('the victim is gone'));
  }
});

t.test('folders with other names are nobody else’s business', async (t) => {
  for (const name of [`sluice-engine-x${process.pid}`, `other-${nameOf(deadPid())}`]) {
    const path = leftover(t, name);
    makeScratch().remove();
    t.ok(existsSync(path), basename(path));
  }
});

const PREFIX = 'process-';

t.test(
  'two processes in different containers leave the folders of each other alone while both live',
  { skip: noNamespaces },
  async (t) => {
    const parent = temporaryFolder(t);
    const own = join(parent, `${processFolderName(PREFIX)}0`);
    mkdirSync(own);
    const module = new URL('../../src/engine/scratch.js', import.meta.url).href;
    const script = `
    const { processFolderName, removeOrphans } = await import('${module}');
    const { mkdirSync } = await import('node:fs');
    mkdirSync('${parent}/' + processFolderName('${PREFIX}') + '0');
    removeOrphans('${parent}', '${PREFIX}');`;
    const other = ['-rpf', '--mount-proc', process.execPath, '--input-type=module', '--eval', script];
    const { status, stderr } = spawnSync('unshare', other, { encoding: 'utf8' });
    t.equal(status, 0, stderr);
    t.equal(readdirSync(parent).length, 2, 'our pid does not count there');
    t.strictSame(removeOrphans(parent, PREFIX), []);
    t.equal(readdirSync(parent).length, 2, 'its pid does not count here');

    const longAgo = Date.now() / 1000 - 3600;
    for (const name of readdirSync(parent)) utimesSync(join(parent, name), longAgo, longAgo);
    removeOrphans(parent, PREFIX);
    showLife(own);
    after(t, 900_000);
    removeOrphans(parent, PREFIX);
    const [left = '', ...more] = readdirSync(parent);
    t.strictSame(more, [], 'the other one has shown no life for a quarter of an hour');
    t.ok(statSync(join(parent, left)).mtimeMs > longAgo * 1000 + 1_800_000, 'this one has');
  },
);

t.test(
  'where memory can not be written it is the folder of TMPDIR, or a failure that names it',
  { skip: noNamespaces },
  (t) => {
    const module = new URL('../../src/engine/scratch.js', import.meta.url).href;
    const script = `
    const { makeScratch } = await import('${module}');
    try {
      const { directory, warning, remove } = makeScratch();
      remove();
      console.log(directory, warning);
    } catch (error) {
      console.log(error.message);
    }`;
    const said = (folder: string): string => {
      const mounts = ['-rm', 'sh', '-c', 'mount -t tmpfs -o ro,size=1g none /dev/shm && exec "$@"', 'sh'];
      const program = [process.execPath, '--input-type=module', '--eval', script];
      const env = { ...process.env, TMPDIR: folder };
      return spawnSync('unshare', [...mounts, ...program], { encoding: 'utf8', env }).stdout;
    };
    // Not below the folder that is covered, where tests may have theirs.
    const folder = mkdtempSync('/var/tmp/sluice-test-');
    t.teardown(() => rmSync(folder, { recursive: true }));
    t.match(said(folder), `${folder}/sluice-engine-`);
    t.match(said(folder), /\/dev\/shm can't be written \(EROFS: .*\): the engine unpacks into \S+, which is slower/);
    t.match(said('/proc/none'), /^\/proc\/none, where the engine unpacks, can't be written \(ENOENT: .*: set TMPDIR/);
    t.end();
  },
);

t.test('a folder that was never made, or a parent that can not be looked into, harms nobody', async (t) => {
  const parent = join(temporaryFolder(t), 'not', 'there');
  showLife(join(parent, 'folder'));
  t.match(removeOrphans(parent, PREFIX), [/leftover folders cannot be looked for/]);
});
