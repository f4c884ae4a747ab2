// `npm start` on a machine where something is missing and nothing may be installed: it says what to run, and does nothing else.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { z } from 'zod';
import { packageJsonPath } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';

const root = dirname(packageJsonPath);

/** The project as it is cloned, as far as the build looks before it installs; and a PATH without a compiler. */
function clone(t: Test): { readonly folder: string; readonly path: string } {
  const folder = temporaryFolder(t);
  for (const room of ['native', 'test', 'bin']) mkdirSync(join(folder, room));
  for (const file of [
    'build.mjs',
    'build-check.mjs',
    'build-uws.mjs',
    'package.json',
    'package-lock.json',
    'native/apt.sh',
    'native/setup.sh',
    'test/setup.sh',
  ]) {
    copyFileSync(join(root, file), join(folder, file));
  }
  const path = join(folder, 'bin');
  symlinkSync(process.execPath, join(path, 'node'));
  symlinkSync('/bin/sh', join(path, 'sh'));
  return { folder, path };
}

t.test('SLUICE_NO_INSTALL=1 stops the start with all commands that it would run', async (t) => {
  const { folder, path } = clone(t);
  const build = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    spawnSync(process.execPath, [join(folder, 'build.mjs'), ...args], {
      env: { PATH: path, SLUICE_NO_INSTALL: '1', ...env },
      encoding: 'utf8',
    });
  const started = build([]);
  t.equal(started.status, 1);
  t.match(
    started.stderr,
    /^ {2}npm install --no-save --ignore-scripts --include=dev --no-audit --no-fund {3}# there were none$/m,
  );
  t.match(
    started.stderr,
    /^ {2}apt-get install --no-install-recommends libclamav-dev liblzma-dev libzstd-dev liblz4-dev g\+\+ make python3 {3}# to compile/m,
  );
  t.notMatch(started.stderr, 'redis-server');
  t.match(
    build(['--test']).stderr,
    /^ {2}apt-get install --no-install-recommends .*redis-server.* {3}# for the tests/m,
  );
  t.notMatch(build([], { ENGINE: 'yara' }).stderr, 'apt-get');
  t.notOk(existsSync(join(folder, 'node_modules')), 'and nothing was installed');
});

/** Programs in place of the system's: an apt-get that finds its lock held twice, and that checks how it is called. */
function machineWithHeldLock(t: Test): {
  readonly folder: string;
  readonly path: string;
  readonly calls: () => string;
} {
  const { folder, path } = clone(t);
  const calls = join(folder, 'calls');
  const program = (name: string, text: string): void => {
    writeFileSync(join(path, name), `#!/bin/sh\n${text}`, { mode: 0o755 });
  };
  program('id', 'echo 0\n');
  program(
    'apt-get',
    `echo "$@" >>${calls}
if [ "$1" = update ] && [ "$(grep -c update ${calls})" -lt 3 ]; then
  echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (unattended-upgr)' >&2
  exit 100
fi
`,
  );
  program('sleep', ':\n');
  for (const name of ['cat', 'env', 'grep', 'mktemp', 'rm']) symlinkSync(`/usr/bin/${name}`, join(path, name));
  return { folder, path, calls: () => readFileSync(calls, 'utf8') };
}

t.test("locks of apt's that another program holds are waited for", async (t) => {
  const { folder, path, calls } = machineWithHeldLock(t);
  const { status, stdout } = spawnSync('/bin/sh', [join(folder, 'native', 'setup.sh')], {
    env: { PATH: path },
    encoding: 'utf8',
  });
  t.equal(status, 0, stdout);
  t.match(
    stdout,
    /^Installing with apt-get, to compile the engine .*: libclamav-dev liblzma-dev libzstd-dev liblz4-dev g\+\+ make python3$/m,
  );
  t.equal(stdout.match(/^Waiting for another program that uses apt, 600 s at most$/gm)?.length, 1);
  t.equal(
    calls(),
    'update -q\n'.repeat(3) +
      'install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 libclamav-dev liblzma-dev libzstd-dev liblz4-dev g++ make python3\n',
  );
});

t.test('an apt-get that fails for another reason ends the installation with what it said', async (t) => {
  const { folder, path } = machineWithHeldLock(t);
  writeFileSync(join(path, 'apt-get'), '#!/bin/sh\necho "E: no network" >&2; exit 100\n', { mode: 0o755 });
  const { status, stdout, stderr } = spawnSync('/bin/sh', [join(folder, 'native', 'setup.sh')], {
    env: { PATH: path },
    encoding: 'utf8',
  });
  t.equal(status, 1);
  t.match(stdout, 'E: no network');
  t.match(stderr, 'apt-get could not install: libclamav-dev liblzma-dev libzstd-dev liblz4-dev g++ make python3');
});

const LockFile = z.object({
  packages: z.record(z.string(), z.object({ optionalDependencies: z.record(z.string(), z.string()).optional() })),
});

t.test(
  'the lock file has an entry for each optional package, of whatever platform: `npm ci` refuses it otherwise',
  async (t) => {
    const { packages } = LockFile.parse(JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')));
    const missing = Object.values(packages)
      .flatMap(({ optionalDependencies = {} }) => Object.keys(optionalDependencies))
      .filter((name) => !Object.keys(packages).some((path) => path.endsWith(`node_modules/${name}`)));
    t.strictSame(missing, []);
  },
);
