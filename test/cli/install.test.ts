// `npm start` on a machine where something is missing and nothing may be installed: it says what to run, and does nothing else.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { packageJsonPath } from '../../src/paths.js';
import { temporaryFolder } from '../native/engine.js';

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
    /^ {2}apt-get install --no-install-recommends libclamav-dev g\+\+ make python3 {3}# to compile/m,
  );
  t.notMatch(started.stderr, 'redis-server');
  t.match(
    build(['--test']).stderr,
    /^ {2}apt-get install --no-install-recommends .*redis-server.* {3}# for the tests/m,
  );
  t.notMatch(build([], { ENGINE: 'yara' }).stderr, 'apt-get');
  t.notOk(existsSync(join(folder, 'node_modules')), 'and nothing was installed');
});
