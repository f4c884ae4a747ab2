// `sluice signatures tune`: what clean files have is no gate any more, and status tells what is behind which.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { mainPath } from '../../src/paths.js';
import { zip } from '../fixtures/archives.js';
import { type Ended, start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { databaseFolder } from '../native/engine.js';

// Clean content has none of them, and each is rare enough to be a gate alone.
const PARTS = ['Xk2#qZ9!vWaJ0&bL~eRn', 'Yp5%rT8&uB3~cEhF2+gNxSl', 'Zm7$sH4@wC6=dQfG1*iUoKy'];

function run(t: Test, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  return start(t, mainPath, ['signatures', ...args], { cwd: tmpdir(), env: { PORT: '1', ENGINE_GATES: 'on', ...env } })
    .ended;
}

t.test('what clean files have is no gate any more, after one pass', async (t) => {
  const subsignatures = PARTS.map((text) => Buffer.from(text).toString('hex')).join(';');
  const folder = databaseFolder(t, { 'a.ldb': `Test.A;Engine:81-255,Target:0;0&1&2;${subsignatures}\n` });
  const env = { SIGNATURES_DIR: folder, DATA_DIR: join(temporaryFolder(t), 'data') };
  t.match((await run(t, ['status', '--json'], env)).stdout, '"gates": null', 'nothing was loaded with gates yet');
  const [first = '', second = '', third = ''] = PARTS;
  const files = databaseFolder(t, {
    one: `x ${first} y`,
    other: zip([{ name: 'a', content: Buffer.from(second) }]),
    empty: '',
  });
  const tuned = await run(t, ['tune', files], env);
  t.match(tuned, { code: 0, stdout: /^2 files, \d+ windows learned: 1 signatures are behind 1 gates now\n$/ });
  t.match(
    (await run(t, ['status'], env)).stdout,
    /behind 1 gates, 0 gates were given up as noisy\n[1-9]\d windows of clean files were learned/,
  );
  const gate = gateIn(env.DATA_DIR);
  const isThird = gate.length > 0 && Buffer.from(third).toString('hex').endsWith(gate);
  t.ok(isThird, 'it is of the one that no file has, not even inside of another one');
  t.match((await run(t, ['tune', files], env)).stdout, '2 files, 0 windows learned', 'it is known');

  const other = databaseFolder(t, {
    'b.ldb': `Test.B;Engine:81-255,Target:0;0&1;${subsignatures.split(';', 2).join(';')}\n`,
  });
  t.equal((await run(t, ['tune', databaseFolder(t, { one: 'x' })], { ...env, SIGNATURES_DIR: other })).code, 0);
  t.match(
    (await run(t, ['status'], { ...env, SIGNATURES_DIR: other })).stdout,
    'asked about: 1 (no gate)',
    'it holds for signatures that come later',
  );

  const all = databaseFolder(t, Object.fromEntries(PARTS.map((text, index) => [`${index}`, text])));
  t.equal((await run(t, ['tune', all], env)).code, 0);
  t.match((await run(t, ['status'], env)).stdout, 'asked about: 1 (no gate)', 'where all are common, there is none');
});

t.test('a damaged file of what was learned is as good as none', async (t) => {
  const folder = databaseFolder(t, {
    'a.ldb': `Test.A;Engine:81-255,Target:0;0;${Buffer.from(PARTS[0] ?? '').toString('hex')}\n`,
  });
  const env = { SIGNATURES_DIR: folder, DATA_DIR: temporaryFolder(t) };
  mkdirSync(join(env.DATA_DIR, 'gates'));
  writeFileSync(join(env.DATA_DIR, 'gates', 'learned.bin'), 'no numbers at all');
  t.match((await run(t, ['tune', databaseFolder(t, { one: 'x' })], env)).stdout, 'behind 1 gates');
  t.match((await run(t, ['tune', databaseFolder(t, { one: PARTS[0] ?? '' })], env)).stdout, 'behind 0 gates');
});

/** The pattern of the only gate that was made last, which may be cut at the front. A choice of a byte and the same one is that byte. */
function gateIn(dataDirectory: string): string {
  const store = join(dataDirectory, 'gates');
  const made = readdirSync(store).find((name) => existsSync(join(store, name, 'gates.ndb'))) ?? '';
  const gates = readFileSync(join(store, made, 'gates.ndb'), 'latin1');
  const pattern = gates.trimEnd().split(':').at(-1) ?? '';
  return pattern.replaceAll(/\((..)\|\1\)/g, '$1');
}

t.test('on a terminal each of its three phases shows where it is', (t) => {
  const lines = Array.from({ length: 256 }, (_, index) => {
    const text = Buffer.from(`${PARTS[0]}${index}`).toString('hex');
    return `Test.${index};Engine:81-255,Target:0;0;${text}\n`;
  });
  const folder = databaseFolder(t, { 'a.ldb': lines.join('') });
  const env = { ...process.env, SIGNATURES_DIR: folder, DATA_DIR: temporaryFolder(t), PORT: '1', ENGINE_GATES: 'on' };
  const command = `${process.execPath} ${mainPath} signatures tune ${databaseFolder(t, { one: 'x', other: 'y' })}`;
  const screen = execFileSync('script', ['-qec', command, '/dev/null'], { env, encoding: 'utf8' });
  t.match(screen, /Listing what gates can be made of [^\n]* 0%.*Scanning [^\n]*2 files.*Making gates for 0s/s);
  t.match(screen, /2 files, 0 windows learned: 256 signatures/);
  t.end();
});

t.test('without files, or signatures, nothing is learned', async (t) => {
  const env = { SIGNATURES_DIR: databaseFolder(t, {}), DATA_DIR: temporaryFolder(t) };
  t.match(await run(t, ['tune', temporaryFolder(t)], env), { code: 2, stderr: /no file to learn from/ });
  t.match(await run(t, ['tune', databaseFolder(t, { one: 'x' })], env), { code: 2, stderr: /no signature/ });
});
