// `sluice signatures tune`: gates that clean files hit are given up for others, and status tells what is behind which.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { mainPath } from '../../src/paths.js';
import { type Ended, start } from '../fixtures/command.js';
import { databaseFolder, temporaryFolder } from '../native/engine.js';

// Clean content has none of them, and each is rare enough to be a gate alone.
const PARTS = ['Xk2#qZ9!vWaJ0&bL~eRn', 'Yp5%rT8&uB3~cEhF2+gNxSl', 'Zm7$sH4@wC6=dQfG1*iUoKy'];

function run(t: Test, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  return start(t, mainPath, ['signatures', ...args], { cwd: tmpdir(), env: { PORT: '1', ENGINE_GATES: 'on', ...env } })
    .ended;
}

t.test('it goes on until no gate hits for nothing', async (t) => {
  const subsignatures = PARTS.map((text) => Buffer.from(text).toString('hex')).join(';');
  const folder = databaseFolder(t, { 'a.ldb': `Test.A;Engine:81-255,Target:0;0&1&2;${subsignatures}\n` });
  const env = { SIGNATURES_DIR: folder, DATA_DIR: join(temporaryFolder(t), 'data') };
  t.match((await run(t, ['status', '--json'], env)).stdout, '"gates": null', 'nothing was loaded with gates yet');
  const [first = '', second = ''] = PARTS;
  const files = databaseFolder(t, { one: `x ${first} y`, other: `x ${second} y`, empty: '' });
  const tuned = await run(t, ['tune', files], env);
  t.equal(tuned.code, 0, tuned.stderr);
  t.match(tuned.stdout, /0 gates given up\n$/);
  const status = await run(t, ['status'], env);
  t.match(status.stdout, /1 logical signatures are behind 1 gates, \d gates were given up as noisy/);
  t.match(
    (await run(t, ['tune', files], env)).stdout,
    /^Round 1: \d scans, 0 second looks, 0 of them for nothing, 0 gates/,
  );

  const all = databaseFolder(t, Object.fromEntries(PARTS.map((text, index) => [`${index}`, text])));
  t.equal((await run(t, ['tune', all], env)).code, 0);
  t.match((await run(t, ['status'], env)).stdout, 'asked about: 1 (no gate)', 'where all are noisy, there is none');
});

t.test('without files, or signatures, nothing is learned', async (t) => {
  const env = { SIGNATURES_DIR: databaseFolder(t, {}), DATA_DIR: temporaryFolder(t) };
  t.match(await run(t, ['tune', temporaryFolder(t)], env), { code: 2, stderr: /no file to learn from/ });
  t.match(await run(t, ['tune', databaseFolder(t, { one: 'x' })], env), { code: 2, stderr: /no signature/ });
});
