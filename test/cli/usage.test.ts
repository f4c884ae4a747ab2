// The command line itself: help, version, bad usage and a wrong configuration.
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import t, { type Test } from 'tap';
import { environment } from '../../src/config/variables.js';
import { mainPath, packageJsonPath } from '../../src/paths.js';
import { type Ended, start } from '../fixtures/command.js';

function sluice(t: Test, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return start(t, mainPath, args, { cwd: tmpdir(), env }).ended;
}

t.test('--version prints the version of the package', async (t) => {
  for (const option of ['--version', '-V']) {
    const { stdout, code } = await sluice(t, [option]);
    t.equal(stdout, `${JSON.parse(readFileSync(packageJsonPath, 'utf8')).version}\n`);
    t.equal(code, 0);
  }
});

t.test('--help names the commands', async (t) => {
  const { stdout, code } = await sluice(t, ['--help']);
  for (const command of ['serve', 'scan', 'user', 'key', 'billing', 'signatures', 'status'])
    t.match(stdout, `  ${command} `);
  t.equal(code, 0);
  t.strictSame(await sluice(t, ['-h']), await sluice(t, ['--help']));
  t.match(await sluice(t, ['user', 'add', '-h']), { code: 0, stdout: 'make an account' });
  t.notMatch((await sluice(t, ['scan', '-h'])).stdout, 'default: false');
  t.match((await sluice(t, ['audit', '-h'])).stdout, /at most so many\s+\(default: 100\)/);
  t.notMatch((await sluice(t, ['billing', '-h'])).stdout, 'help [command]');
});

t.test('a reader that is gone is no error', async (t) => {
  const command = start(t, mainPath, ['serve', '--help'], { cwd: tmpdir() });
  command.process.stdout?.destroy();
  t.match(await command.ended, { code: 0, stderr: '' });
});

t.test('serve --help names every environment variable', async (t) => {
  const { stdout, code } = await sluice(t, ['serve', '--help']);
  for (const { name } of environment) t.match(stdout, new RegExp(`^  ${name}(=|$)`, 'm'));
  t.equal(code, 0);
});

t.test('bad usage ends with 2, a message on stderr and nothing on stdout', async (t) => {
  for (const args of [
    [],
    ['frobnicate'],
    ['billing'],
    ['billing', 'pay'],
    ['scan'],
    ['scan', '--yaml', '.'],
    ['signatures', 'frobnicate'],
    ['serve', 'now'],
    ['--port', '1'],
  ]) {
    const { stdout, stderr, code } = await sluice(t, args);
    t.equal(code, 2, args.join(' '));
    t.equal(stdout, '');
    t.not(stderr, '');
  }
});

t.test('a wrong configuration ends with 78 and every problem, printed once', async (t) => {
  for (const args of [['serve'], ['serve', '--no-supervisor'], ['scan', '.']]) {
    const { stdout, stderr, code } = await sluice(t, args, { PORT: 'http', SCAN_THREADS: '0', LOG_LEVEL: 'loud' });
    t.equal(code, 78, args.join(' '));
    t.equal(stdout, '');
    for (const name of ['PORT', 'SCAN_THREADS', 'LOG_LEVEL']) t.equal(stderr.split(`  ${name} `).length, 2, name);
  }
});

t.test('billing reconcile says what it does, and that billing is off', async (t) => {
  const help = await sluice(t, ['billing', 'reconcile', '--help']);
  t.match(help.stdout, /^ {2}STRIPE_SECRET_KEY$/m);
  t.equal(help.code, 0);
  const database = { DATABASE_URL: 'postgres://127.0.0.1:1/sluice' };
  const { stdout, stderr, code } = await sluice(t, ['billing', 'reconcile'], database);
  t.strictSame(
    [stdout, stderr, code],
    ['', 'The configuration has a problem:\n  STRIPE_SECRET_KEY is not set: billing is off\n', 78],
  );
});
