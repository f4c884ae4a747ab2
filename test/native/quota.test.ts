// The bound on what scans unpack: over it nothing is clean, far over it the process ends, and under it all goes on.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { start } from '../fixtures/command.js';
import { faultEnvironment } from '../fixtures/faults.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { bodySignature, databaseFolder } from './engine.js';

const program = fileURLToPath(new URL('./faulty-process.js', import.meta.url));

function run(
  t: { teardown(undo: () => void): void },
  limitMb: number,
  orders: readonly string[],
  folder = temporaryFolder(t),
) {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  t.teardown(() => rmSync(join(folder, 'filled'), { force: true }));
  const env = { SANDBOX: 'off', TEMPORARY_MB: String(limitMb), ...faultEnvironment };
  return start(t, program, [databases, folder, ...orders], { env }).ended;
}

const verdicts = (stdout: string): unknown[] =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

t.test('a scan that goes on over the bound has no verdict, and neither has the next one', async (t) => {
  const { stdout } = await run(t, 20, ['fill 10', 'fill 15', 'fill 0']);
  t.match(verdicts(stdout), [
    { kind: 'clean' },
    // What fills the folder is there before the engine begins: it is not the content's doing.
    { kind: 'failed', reason: 'The engine has no room to unpack' },
    { kind: 'failed', reason: 'The engine has no room to unpack' },
  ]);
});

t.test('what is found over the bound is found all the same, or has no verdict', async (t) => {
  const { stdout } = await run(t, 20, ['fill 25 a mark of this test']);
  t.match(verdicts(stdout), [{ kind: /^(infected|failed)$/ }]);
});

t.test('a parser that writes without end ends the process, as a crash does', async (t) => {
  const { signal, stderr } = await run(t, 20, ['fill 100']);
  t.equal(signal, 'SIGABRT');
  t.match(stderr, 'A scan fills the temporary folder without end');
});

t.test('while nobody can look into all of the folder, nothing is called clean', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'a/'.repeat(60)), { recursive: true });
  // Enough for a scan of plain text, and fewer than looking as deep as that takes, also when other work of the process gives some back.
  const { stdout, stderr } = await run(t, 20, ['starve 16'], folder);
  t.match(verdicts(stdout)[0], { kind: 'failed', reason: 'The engine has no room to unpack' }, stderr);
});
