// What threads say that they are at: what a process that is killed leaves of it, and what saying it costs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import t, { type Test } from 'tap';
import { createNote, openInFlight, readInFlight } from '../../../src/engine/threads/ring.js';

const text = (digit: string): string => digit.repeat(64);
const digest = (digit: string): Buffer => Buffer.from(text(digit));

function open(t: Test): number {
  const inFlight = openInFlight();
  if (inFlight === null) throw new Error('the addon is not there');
  t.teardown(() => closeSync(inFlight));
  return inFlight;
}

t.test('it holds what threads are at, each once', async (t) => {
  const inFlight = open(t);
  t.strictSame(readInFlight(inFlight), []);
  const notes = [0, 1, 2].map((place) => createNote(inFlight, place));
  for (const [index, digit] of ['a', 'b', 'a'].entries()) notes[index]?.enter(digest(digit));
  t.strictSame(readInFlight(inFlight), [text('a'), text('b')]);
  notes[1]?.leave();
  notes[1]?.leave();
  t.strictSame(readInFlight(inFlight), [text('a')]);
  notes[1]?.enter(digest('c'));
  notes[0]?.enter(digest('d'));
  notes[2]?.leave();
  t.strictSame(readInFlight(inFlight), [text('d'), text('c')]);
});

t.test('a process that is killed without warning leaves what it was at', async (t) => {
  const inFlight = open(t);
  const module = new URL('../../../src/engine/threads/ring.js', import.meta.url).href;
  const script = `const { createNote } = await import('${module}');
    createNote(3, 1).enter(Buffer.from('${text('d')}'));
    process.kill(process.pid, 'SIGKILL');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'inherit', 'inherit', inFlight],
  });
  t.strictSame(await once(child, 'exit'), [null, 'SIGKILL']);
  t.strictSame(readInFlight(inFlight), [text('d')]);
});

t.test('a thread beyond the last place, and one without a place, scan without a note', async (t) => {
  const inFlight = open(t);
  for (const note of [createNote(inFlight, 1_000_000), createNote(null, 0)]) {
    note.enter(digest('a'));
    note.leave();
  }
  t.strictSame(readInFlight(inFlight), []);
});

t.test('entering costs a fraction of a microsecond', async (t) => {
  const note = createNote(open(t), 0);
  const bytes = digest('e');
  const rounds = 200_000;
  const startedMs = performance.now();
  for (let round = 0; round < rounds; round += 1) note.enter(bytes);
  t.comment(`${(((performance.now() - startedMs) / rounds) * 1000).toFixed(2)} us`);
});
