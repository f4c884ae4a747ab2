// The programs that run under sanitizers (test/sanitize/run.sh) are of the native layer as it is: they compile against it.
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { packageJsonPath } from '../../src/paths.js';

const run = promisify(execFile);

for (const program of ['swap', 'fuzz', 'memory']) {
  t.test(`${program}.cc compiles`, async (t) => {
    const flags = ['-std=c++20', '-fsyntax-only', '-DMARKS="marks"'];
    await t.resolves(run('c++', [...flags, join(dirname(packageJsonPath), 'test', 'sanitize', `${program}.cc`)]));
  });
}
