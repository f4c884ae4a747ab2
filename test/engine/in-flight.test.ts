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

t.test('entering and leaving costs microseconds', async (t) => {
  const inFlight = openInFlight(join(folder, 'many'));
  const rounds = 20_000;
  const startedMs = performance.now();
  for (let round = 0; round < rounds; round += 1) inFlight.enter(digest('e'))();
  t.comment(`${(((performance.now() - startedMs) / rounds) * 1000).toFixed(1)} us`);
  inFlight.close();
});
