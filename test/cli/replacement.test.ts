// The server process is replaced by another one, over the wire and with real processes: under load, with signatures that got worse, in the place of a dead one.
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startBusyServer } from '../fixtures/busy-server.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { childrenOf, databaseOf } from '../fixtures/processes.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { type Counts, steadyScans } from '../fixtures/steady-scans.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const postgres = await startPostgres({ t });
const redis = await startRedis({ t });
const stores = { postgres, redis };

t.test('replaced on SIGUSR2 again and again, under load, no request fails', async (t) => {
  const server = await startBusyServer(t, stores);
  const endShort = steadyScans(server, 10, false);
  const keepAlive = new Agent({ keepAlive: true, maxSockets: 10 });
  const endLong = steadyScans(server, 10, keepAlive);
  const seen = new Set(childrenOf(server.pid));
  for (let round = 1; round <= 3; round += 1) {
    process.kill(server.pid, 'SIGUSR2');
    await server.printed(new RegExp(`(?:"msg":"(replaced)"[\\s\\S]*){${round}}`));
    for (const pid of childrenOf(server.pid)) seen.add(pid);
  }
  const counts = [await endShort(), await endLong()];
  keepAlive.destroy();
  t.comment(JSON.stringify(counts));
  for (const count of counts) t.strictSame(Object.keys(count), ['200']);
  t.ok(seen.size >= 4, 'each time it is another process');
  t.equal(await server.stop(), 0);
});

t.test(
  'the embedded database and its counts outlive the process: a replacement under load, to the last unit',
  async (t) => {
    const server = await startServer({
      isSupervised: true,
      env: { PLANS: 'SMALL:300', BOOTSTRAP_PLAN: 'SMALL', SCAN_THREADS: '2' },
    });
    t.teardown(() => server.stop('SIGKILL'));
    await enoughOfTheHour(120_000);
    const keepAlive = new Agent({ keepAlive: true, maxSockets: 4 });
    const ends = [steadyScans(server, 2, false), steadyScans(server, 4, keepAlive)];
    process.kill(server.pid, 'SIGUSR2');
    await server.printed(/"msg":"(replaced)"/);
    await server.printed(/"msg":"(stopped)"/);
    t.notMatch(server.output(), 'not warm');
    // Until the limit is reached, if it isn't yet.
    let more = 0;
    let last = await upload(server.url, 'the last ones');
    for (; last.status === 200; more += 1) last = await upload(server.url, 'the last ones');
    t.equal(last.status, 429);
    const sums: Counts = {};
    for (const end of ends)
      for (const [status, count] of Object.entries(await end())) sums[status] = (sums[status] ?? 0) + count;
    keepAlive.destroy();
    t.comment(JSON.stringify(sums));
    // The steady ones may have ended before they were refused.
    t.strictSame(
      Object.keys(sums).filter((status) => status !== '429'),
      ['200'],
    );
    t.equal((sums['200'] ?? 0) + more, 300, 'every unit is taken once');
    const rows = await (await fetch(`${server.url}/readyz`)).json();
    t.match(rows, { status: 'ready' });
    // It comes back, and nobody but its queries notices.
    const database = databaseOf(server.pid);
    process.kill(database, 'SIGKILL');
    await server.printed(/"msg":"(the embedded database ended, restarting)"/);
    // Until the database is back scans may have a 503; the readiness is up to a second old.
    const status = await until(async () => {
      const again = await upload(server.url, 'the limit stays');
      return again.status !== 503 && again.status;
    });
    t.equal(status, 429);
    t.equal(await server.stop(), 0);
  },
);

/** Signatures that load until they are broken; with a rule, by which YARA-X can stand in. */
function breakable(t: Test, rules: Record<string, string>): { folder: string; breakIt: () => void } {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Mark', 'a mark'), ...rules });
  return { folder, breakIt: () => writeFileSync(join(folder, 'a.ndb'), 'no signature\n') };
}

const RULE = { 'a.yar': 'rule Mark { strings: $a = "another mark" condition: $a }\n' };

t.test('rules alone do not take over from a ClamAV that serves, but from other rules', async (t) => {
  const { folder, breakIt } = breakable(t, RULE);
  const env = { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '0' };
  const server = await startBusyServer(t, stores, env);
  breakIt();
  process.kill(server.pid, 'SIGUSR2');
  await server.printed(/"msg":"(not taking over: the process that serves does it better)"/);
  await server.printed(/"msg":"(the new process failed, the old one goes on)"/);
  t.match((await upload(server.url, 'some text')).headers.get('x-scan-engine'), /^clamav/);
  t.equal(await server.stop(), 0);

  const degraded = await startBusyServer(t, stores, env);
  t.match((await upload(degraded.url, 'some text')).headers.get('x-scan-engine'), /^yara-x/);
  process.kill(degraded.pid, 'SIGUSR2');
  await degraded.printed(/"msg":"(replaced)"/);
  t.match((await upload(degraded.url, 'other text')).headers.get('x-scan-engine'), /^yara-x/);
  t.equal(await degraded.stop(), 0);
});

t.test('a successor in the place of a dead process stays, also when its signatures do not load', async (t) => {
  const { folder, breakIt } = breakable(t, {});
  const env = { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '0', ENGINE: 'clamav' };
  const server = await startBusyServer(t, stores, env);
  const old = childrenOf(server.pid);
  breakIt();
  process.kill(server.pid, 'SIGUSR2');
  // Stopped before its exec it would stop the supervisor as well, which waits for that.
  const fresh = await until(() =>
    childrenOf(server.pid).find(
      (pid) => !old.includes(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--no-supervisor'),
    ),
  );
  // It does nothing before it is promoted.
  process.kill(fresh, 'SIGSTOP');
  for (const pid of old) process.kill(pid, 'SIGKILL');
  await server.printed(/"msg":"(server ended, the one that was to replace it serves)"/);
  process.kill(fresh, 'SIGCONT');
  await server.printed(/"msg":"(the signatures could not be loaded: scans are refused)"/);
  await server.printed(/(?:"msg":"(listening)"[\s\S]*){2}/);
  t.equal((await upload(server.url, 'some text')).status, 503);
  writeFileSync(join(folder, 'a.ndb'), bodySignature('Test.Mark', 'a mark'));
  process.kill(server.pid, 'SIGHUP');
  await server.printed(/(?:"msg":"(signatures loaded)"[\s\S]*){2}/);
  t.equal((await upload(server.url, 'some text')).status, 200);
  t.same(childrenOf(server.pid), [fresh]);
  t.equal(await server.stop(), 0);
});
