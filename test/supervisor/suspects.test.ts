// The crash suspects: refused at the second crash, kept over a restart, forgotten after a week, and bounded.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createNote } from '../../src/engine/threads/ring.js';
import { createSuspects } from '../../src/supervisor/kept.js';
import { temporaryFolder } from '../fixtures/folder.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const log = { warn: () => undefined, error: () => undefined };
const digest = (number: number): string => number.toString(16).padStart(64, '0');

function open(dataDirectory: string, clock = { nowMs: 0 }) {
  const suspects = createSuspects({ dataDirectory, log, now: () => clock.nowMs });
  const crash = (digests: readonly number[], crashed = true): boolean => {
    const inFlight = suspects.open() ?? -1;
    for (const [place, number] of digests.entries()) createNote(inFlight, place).enter(Buffer.from(digest(number)));
    return suspects.close(inFlight, crashed);
  };
  return { ...suspects, crash };
}

t.test('what was in flight at two crashes is refused, what was at one is not', async (t) => {
  const suspects = open(temporaryFolder(t));
  t.equal(suspects.crash([1, 2]), false);
  t.strictSame(suspects.refused(), []);
  t.equal(suspects.crash([2, 3]), true);
  t.strictSame(suspects.refused(), [digest(2)]);
});

t.test('a thread that hangs counts like a crash, an end in order does not', async (t) => {
  const suspects = open(temporaryFolder(t));
  suspects.crash([1], false);
  suspects.crash([1], false);
  t.strictSame(suspects.refused(), []);
  t.equal(suspects.hung(digest(1)), false);
  t.equal(suspects.hung(digest(1)), true);
  t.strictSame(suspects.refused(), [digest(1)]);
});

t.test('a process that crashed before its first scan makes nobody suspect', async (t) => {
  const suspects = open(temporaryFolder(t));
  t.equal(suspects.close(suspects.open() ?? -1, true), false);
});

t.test('where no memory can be had nothing is noted, and the service goes on', async (t) => {
  const module = new URL('../../src/supervisor/kept.js', import.meta.url).href;
  // The addon is loaded before the descriptors are gone.
  const script = `const { openSync } = await import('node:fs');
    const { createSuspects } = await import('${module}');
    const said = [];
    const log = { warn: (_, text) => said.push(text), error: () => undefined };
    const suspects = createSuspects({ dataDirectory: '${temporaryFolder(t)}', log, now: Date.now });
    const first = suspects.open();
    try { for (;;) openSync('/dev/null'); } catch (error) { said.push(error.code); }
    console.log(JSON.stringify([typeof first, suspects.open(), ...said]));
    process.exit();`;
  const shell = 'ulimit -n 500 && exec "$0" "$@"';
  const out = execFileSync('sh', ['-c', shell, process.execPath, '--input-type=module', '-e', script]);
  t.strictSame(JSON.parse(String(out)), [
    'number',
    null,
    'EMFILE',
    'what is being scanned can not be noted: a crash suspects no content',
  ]);
});

t.test('they are kept over a restart, and for a week', async (t) => {
  const path = temporaryFolder(t);
  const clock = { nowMs: 1000 * DAY_MS };
  const before = open(path, clock);
  before.crash([1]);
  before.crash([1]);
  clock.nowMs += 6 * DAY_MS;
  before.crash([2]);
  const after = open(path, clock);
  t.strictSame(after.refused(), [digest(1)]);
  clock.nowMs += 2 * DAY_MS;
  t.strictSame(after.refused(), []);
  after.crash([2]);
  t.strictSame(after.refused(), [digest(2)], 'its first crash was remembered');
});

t.test('a file that is damaged is started without', async (t) => {
  const path = temporaryFolder(t);
  writeFileSync(join(path, 'crash-suspects.json'), '{"a":');
  const suspects = open(path);
  t.strictSame(suspects.refused(), []);
  suspects.crash([1]);
  t.match(JSON.parse(readFileSync(join(path, 'crash-suspects.json'), 'utf8')), { [digest(1)]: { crashes: 1 } });
});

t.test(
  'one that an operator allows is scanned again, also after a restart, until it has crashed twice more',
  async (t) => {
    const path = temporaryFolder(t);
    const suspects = open(path);
    suspects.crash([1, 2]);
    suspects.crash([1, 2]);
    t.equal(suspects.allow(digest(1)), true);
    t.equal(suspects.allow(digest(1)), false);
    t.strictSame(suspects.refused(), [digest(2)]);
    const after = open(path);
    t.strictSame(after.refused(), [digest(2)]);
    t.equal(after.crash([1]), false);
    t.equal(after.crash([1]), true);
  },
);

t.test('no more than ten thousand are kept, the newest', async (t) => {
  const path = temporaryFolder(t);
  const suspects = open(path);
  // A process has room for 1,024 of them.
  for (let from = 0; from <= 10_000; from += 1_000) {
    suspects.crash(Array.from({ length: Math.min(1_000, 10_001 - from) }, (_, index) => from + index));
  }
  const kept = Object.keys(JSON.parse(readFileSync(join(path, 'crash-suspects.json'), 'utf8')));
  t.equal(kept.length, 10_000);
  t.notOk(kept.includes(digest(0)));
});
