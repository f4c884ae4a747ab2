// A new process scans for itself before it is ready, and nobody ever sees these scans: no row, no unit, no metric.
import { readdirSync } from 'node:fs';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { childrenOf, databaseOf } from '../fixtures/processes.js';
import { startServer } from '../fixtures/server.js';
import { bearer, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const TMPDIR = temporaryFolder(t);
const server = await startServer({ t, env: { TMPDIR, SCAN_THREADS: '2', PLANS: 'FREE:5', BOOTSTRAP_PLAN: 'FREE' } });

t.test('it has scanned before it was ready', async (t) => {
  const line = await server.printed(/^(.*"msg":"ready.*)$/m);
  t.match(JSON.parse(line), { msg: /^ready$/, scans: Number, warmUpMillis: Number });
  t.ok(JSON.parse(line).scans > 0);
  t.match(await (await fetch(`${server.url}/readyz`)).json(), { status: 'ready' });
});

t.test('these scans left nothing', async (t) => {
  const metrics = await server.metrics();
  const valuesOf = (name: string): string[] =>
    [...metrics.matchAll(/^([a-z_]+)(?:\{[^}]*\})? (\S+)$/gm)].flatMap(([, of, value = '']) =>
      of === name ? [value] : [],
    );
  for (const name of ['sluice_scans_total', 'sluice_scan_failures_total']) t.strictSame(valuesOf(name), [], name);
  for (const name of [
    'sluice_scanned_bytes_total',
    'sluice_scan_seconds_count',
    'sluice_scan_wait_seconds_count',
    'sluice_journal_rows',
    'sluice_upload_memory_bytes',
    'sluice_verdict_cache_entries',
  ]) {
    t.ok(
      valuesOf(name).every((value) => value === '0'),
      `${name}: ${valuesOf(name)}`,
    );
  }
  // The engine's own trial at its load.
  t.strictSame(valuesOf('sluice_gates_scans'), ['2']);
  t.notMatch(server.output(), '"msg":"scan"');
  t.strictSame(readdirSync(TMPDIR), []);
});

t.test('the first scan of a client is the first that counts, and asks no database', async (t) => {
  const database = databaseOf(server.pid);
  const stopped = [database, ...childrenOf(database)];
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  const first = await upload(server.url, 'some text');
  for (const pid of stopped) process.kill(pid, 'SIGCONT');
  t.equal(first.status, 200);
  t.equal(first.headers.get('x-ratelimit-remaining'), '4');
  t.equal(first.headers.get('x-scan-cache'), 'MISS');
  const headers = bearer((await signIn(server.url)).accessToken);
  await until(async () => {
    const page = await (await fetch(`${server.url}/web/scans/stats`, { headers })).json();
    return JSON.stringify(page).includes('"totalElements":1,');
  });
  const metrics = await server.metrics();
  t.match(metrics, /^sluice_scans_total\{[^}]*\} 1$/m);
  t.match(metrics, /^sluice_scan_wait_seconds_count\{class="alone"\} 1$/m);
});

t.test('a process that can not try itself out serves all the same', async (t) => {
  const cold = await startServer({ t, env: { TMPDIR: '/dev/null/none' } });
  await cold.printed(/"reason":"ENOTDIR[^"]*","msg":"(ready, but not warm)/);
  t.equal((await upload(cold.url, 'some text')).status, 200);
});

t.test('a process that no scan thread starts in is not ready, and says why', async (t) => {
  // libraries of the threads, and none of the server's, make code of texts.
  const env = { NODE_OPTIONS: '--disallow-code-generation-from-strings', SCAN_TIMEOUT_MS: '1000' };
  const idle = await startServer({ t, env });
  const answer = await fetch(`${idle.url}/readyz`);
  t.equal(answer.status, 503);
  t.match(await answer.json(), {
    status: 'unavailable',
    engine: { status: 'failed', message: /^Code generation from strings/ },
    signatures: 'starter',
  });
});

t.test('an idle process is not woken for measures of its own event loop again and again', async (t) => {
  let leastSeconds = Number.POSITIVE_INFINITY;
  // Asking forgets what was measured. Before the next measure it is as large as a number can be.
  await until(async () => {
    leastSeconds = await server.metric('sluice_nodejs_eventloop_lag_min_seconds');
    return leastSeconds < 60;
  });
  // A busy machine has one measure begin late, and the next one not.
  t.ok(leastSeconds > 0.05, String(leastSeconds));
});
