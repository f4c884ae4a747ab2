// An error that nothing catches, whenever it comes, is a failure of the test that runs, and those after it run all the same.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from './fixtures/folder.js';

const folder = temporaryFolder(t);

/** What a test file of these lines prints, and its exit code. */
function run(...lines: readonly string[]): { readonly code: number | null; readonly output: string } {
  const path = join(folder, 'one.js');
  writeFileSync(path, [`import t from '${import.meta.resolve('tap')}';`, ...lines].join('\n'));
  const { status, stdout } = spawnSync(process.execPath, [join(import.meta.dirname, 'file.js'), path], {
    env: { ...process.env, TAP: '1' },
    encoding: 'utf8',
  });
  return { code: status, output: stdout };
}

const later = "t.test('later', async (t) => { t.pass('runs'); });";

for (const [what, line] of [
  ['thrown by a timer', "setTimeout(() => { throw new Error('lost'); });"],
  ['rejected where nobody waits', "void Promise.reject(new Error('lost'));"],
  ['thrown by a listener', "process.nextTick(() => { throw new Error('lost'); });"],
] as const) {
  t.test(`an error ${what}`, async (t) => {
    const waits = 'await new Promise((resolve) => setTimeout(resolve, 100));';
    const { code, output } = run(`t.test('first', async (t) => { ${line} ${waits} t.pass('waits'); });`, later);
    t.equal(code, 1);
    t.match(output, /^ {4}not ok \d+ - lost$/m);
    t.match(output, /^not ok 1 - first/m);
    t.match(output, /^ok 2 - later/m);
  });
}

t.test('an error while no test runs', async (t) => {
  const { code, output } = run("setTimeout(() => { throw new Error('lost'); }, 50);", later);
  t.equal(code, 1);
  t.match(output, /^not ok \d+ - lost$/m);
});

t.test('an error after the last test', async (t) => {
  const { code, output } = run(later, "t.on('complete', () => setTimeout(() => { throw new Error('lost'); }, 50));");
  t.equal(code, 1, output);
});

t.test('a test that listens sees the error, and has not failed by it', async (t) => {
  const { code, output } = run(
    "t.test('first', async (t) => {",
    "  const seen = new Promise((resolve) => process.once('uncaughtException', resolve));",
    "  setTimeout(() => { throw new Error('wanted'); });",
    "  t.match(await seen, { message: 'wanted' });",
    '});',
    later,
  );
  t.match({ code, output }, { code: 0, output: /^ok 2 - later/m });
});

t.test('a file that waits between two tests is not over, and is when it was read', async (t) => {
  const { code, output } = run(
    't.teardown(() => clearInterval(open));',
    'const open = setInterval(() => undefined, 1000);',
    "t.test('first', async (t) => { t.pass('runs'); });",
    'await new Promise((resolve) => setTimeout(resolve, 200));',
    later,
  );
  t.match({ code, output }, { code: 0, output: /^ok 2 - later/m });
});
