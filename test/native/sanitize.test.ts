// The programs that run under sanitizers (test/sanitize/run.sh) are of the native layer as it is: they compile against it, and the one of the swaps does what it is for.
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { packageJsonPath } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';

const run = promisify(execFile);
const root = dirname(packageJsonPath);
const flags = ['-std=c++20', '-DMARKS="marks"'];
const sourceOf = (program: string): string => join(root, 'test', 'sanitize', `${program}.cc`);

for (const program of ['fuzz', 'parsers', 'memory']) {
  t.test(`${program}.cc compiles`, async (t) => {
    await t.resolves(run('c++', [...flags, '-fsyntax-only', sourceOf(program)]));
  });
}

t.test('engines are swapped under running scans', async (t) => {
  const folder = temporaryFolder(t);
  const program = join(folder, 'swap');
  const built = join(root, 'native', 'build', 'Release', 'obj.target', 'sluice', 'build', 'units');
  const objects = readdirSync(built).filter((name) => name.endsWith('.o'));
  const libraries = ['clamav', 'z', 'bz2', 'lzma', 'zstd', 'lz4', 'dl'].map((name) => `-l${name}`);
  const parts = [sourceOf('swap'), ...objects.map((name) => join(built, name)), ...libraries];
  await run('c++', [...flags, '-pthread', ...parts, '-o', program]);
  const { stdout } = await run(program, ['1', join(folder, 'files'), join(root, 'signatures', 'marks')]);
  t.match(stdout, /^swap: \d+ scans, \d+ loads$/m);
});
