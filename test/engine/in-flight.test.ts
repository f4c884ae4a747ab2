// The file of what is being scanned: what a process that is killed leaves in it, and what writing it costs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { openInFlight, readInFlight } from '../../src/engine/in-flight.js';

const folder = mkdtempSync(join(tmpdir(), 'in-flight-test-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const digest = (digit: string): string => digit.repeat(64);

t.test('it holds what was entered and not taken out, each once', async (t) => {
  const path = join(folder, 'some');
  const inFlight = openInFlight(path);
  t.strictSame(readInFlight(path), []);
  const [leaveA, leaveB, leaveSecondA] = [digest('a'), digest('b'), digest('a')].map((each) => inFlight.enter(each));
  t.strictSame(readInFlight(path), [digest('a'), digest('b')]);
  leaveB?.();
  t.strictSame(readInFlight(path), [digest('a')]);
  inFlight.enter(digest('c'));
  leaveA?.();
  leaveSecondA?.();
  t.strictSame(readInFlight(path), [digest('c')]);
  inFlight.close();
});

t.test('a process that is killed without warning leaves what it was at', async (t) => {
  const path = join(folder, 'killed');
  const module = new URL('../../src/engine/in-flight.js', import.meta.url).href;
  const script = `const { openInFlight } = await import('${module}');
    openInFlight('${path}').enter('${digest('d')}'); process.kill(process.pid, 'SIGKILL');`;
  await once(spawn(process.execPath, ['--input-type=module', '-e', script]), 'exit');
  t.strictSame(readInFlight(path), [digest('d')]);
});

t.test('a note that cannot be written stops no scan', async (t) => {
  // Opens as any file does; no write succeeds.
  const full = openInFlight('/dev/full');
  t.teardown(() => full.close());
  for (const leave of [digest('a'), digest('b')].map((each) => full.enter(each))) leave();
});

t.test('a place is used again when it is empty, and only then', async (t) => {
  const path = join(folder, 'limited');
  // The shell's limit is in blocks of 512 bytes: room for the first eight digests. What is written beyond is refused (EFBIG).
  const module = new URL('../../src/engine/in-flight.js', import.meta.url).href;
  const script = `const { openInFlight } = await import('${module}');
    process.on('SIGXFSZ', () => undefined);
    const inFlight = openInFlight('${path}');
    const leaves = [...'0123456789'].map((digit) => inFlight.enter(digit.repeat(64)));
    for (const leave of leaves) leave();
    for (const digit of 'abcdef01') inFlight.enter(digit.repeat(64));`;
  const shell = 'ulimit -f 1 && exec "$0" "$@"';
  const child = spawn('sh', ['-c', shell, process.execPath, '--input-type=module', '-e', script], { stdio: 'inherit' });
  t.strictSame(await once(child, 'exit'), [0, null]);
  t.strictSame(readInFlight(path).sort(), [...'01abcdef'].map(digest));
});

t.test('entering and leaving costs microseconds', async (t) => {
  const inFlight = openInFlight(join(folder, 'many'));
  const rounds = 20_000;
  const startedMs = performance.now();
  for (let round = 0; round < rounds; round += 1) inFlight.enter(digest('e'))();
  t.comment(`${(((performance.now() - startedMs) / rounds) * 1000).toFixed(1)} us`);
  inFlight.close();
});
