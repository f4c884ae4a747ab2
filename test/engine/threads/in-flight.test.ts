// The file of what is being scanned: what a process that is killed leaves in it, and what writing it costs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { createNote, openInFlight, readInFlight } from '../../../src/engine/threads/in-flight.js';

const folder = mkdtempSync(join(tmpdir(), 'in-flight-test-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const text = (digit: string): string => digit.repeat(64);
const digest = (digit: string): Buffer => Buffer.from(text(digit));

t.test('it holds what threads are at, each once', async (t) => {
  const path = join(folder, 'some');
  const inFlight = openInFlight(path);
  t.strictSame(readInFlight(path), []);
  const notes = [0, 1, 2].map((place) => createNote(inFlight.descriptor, place));
  for (const [index, digit] of ['a', 'b', 'a'].entries()) notes[index]?.enter(digest(digit));
  t.strictSame(readInFlight(path), [text('a'), text('b')]);
  notes[1]?.leave();
  notes[1]?.leave();
  t.strictSame(readInFlight(path), [text('a')]);
  notes[1]?.enter(digest('c'));
  notes[0]?.enter(digest('d'));
  notes[2]?.leave();
  t.strictSame(readInFlight(path), [text('d'), text('c')]);
  inFlight.close();
});

t.test('a process that is killed without warning leaves what it was at', async (t) => {
  const path = join(folder, 'killed');
  const module = new URL('../../../src/engine/threads/in-flight.js', import.meta.url).href;
  const script = `const { createNote, openInFlight } = await import('${module}');
    createNote(openInFlight('${path}').descriptor, 1).enter(Buffer.from('${text('d')}'));
    process.kill(process.pid, 'SIGKILL');`;
  await once(spawn(process.execPath, ['--input-type=module', '-e', script]), 'exit');
  t.strictSame(readInFlight(path), [text('d')]);
});

t.test('a note that cannot be written stops no scan', async (t) => {
  // Opens as any file does; no write succeeds.
  const full = openInFlight('/dev/full');
  t.teardown(() => full.close());
  const note = createNote(full.descriptor, 0);
  note.enter(digest('a'));
  note.enter(digest('b'));
  note.leave();
});

t.test('a note that could not be taken out is tried again', async (t) => {
  const path = join(folder, 'limited');
  // The shell's limit is in blocks of 512 bytes: room for the first eight digests. What is written beyond is refused (EFBIG).
  const module = new URL('../../../src/engine/threads/in-flight.js', import.meta.url).href;
  const script = `const { createNote, openInFlight } = await import('${module}');
    process.on('SIGXFSZ', () => undefined);
    const { descriptor } = openInFlight('${path}');
    const notes = [...'0123456789'].map((digit, place) => {
      const note = createNote(descriptor, place);
      note.enter(Buffer.from(digit.repeat(64)));
      return note;
    });
    for (const note of notes.slice(4)) note.leave();
    notes[9].enter(Buffer.from('f'.repeat(64)));
    notes[4].enter(Buffer.from('e'.repeat(64)));`;
  const shell = 'ulimit -f 1 && exec "$0" "$@"';
  const child = spawn('sh', ['-c', shell, process.execPath, '--input-type=module', '-e', script], { stdio: 'inherit' });
  t.strictSame(await once(child, 'exit'), [0, null]);
  t.strictSame(readInFlight(path), [...'0123e'].map(text));
});

t.test('entering costs microseconds', async (t) => {
  const inFlight = openInFlight(join(folder, 'many'));
  const note = createNote(inFlight.descriptor, 0);
  const rounds = 20_000;
  const startedMs = performance.now();
  for (let round = 0; round < rounds; round += 1) note.enter(digest('e'));
  t.comment(`${(((performance.now() - startedMs) / rounds) * 1000).toFixed(1)} us`);
  inFlight.close();
});
