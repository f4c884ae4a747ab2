// What a server process survives, over the wire and with real processes: its replacement under load, scans that hang, scans that crash it.

import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { faultEnvironment, faulty } from '../fixtures/faults.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { childrenOf, databaseOf } from '../fixtures/processes.js';
import { startRedis } from '../fixtures/redis.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const postgres = await startPostgres();
t.teardown(() => postgres.stop());
const redis = await startRedis();
t.teardown(() => redis.stop());

async function start(t: Test, env: Record<string, string> = {}): Promise<TestServer> {
  const stores = { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url, BOOTSTRAP_PLAN: 'HUGE' };
  const settings = { PLANS: 'HUGE:1000000', SCAN_THREADS: '2', ...stores, ...env };
  const server = await startServer({ env: settings });
  t.teardown(() => server.stop('SIGKILL'));
  return server;
}

/** Between two requests of a client. A client without it takes all cores, and the server gets slow instead of what is tested. */
const PAUSE_MS = 50;

/** Which statuses, or errors, the requests ended with. */
type Counts = Record<string, number>;

/** Scans from several clients until it is stopped; with an agent of its own each connection is for many requests. */
function load(server: TestServer, clients: number, agent: Agent | false): () => Promise<Counts> {
  const counts: Counts = {};
  let over = false;
  const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nSERIAL\r\n--b--\r\n';
  let serial = 0;
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      const end = (outcome: string): void => {
        counts[outcome] = (counts[outcome] ?? 0) + 1;
        resolve();
      };
      const headers = { 'X-API-KEY': API_KEY, 'Content-Type': 'multipart/form-data; boundary=b' };
      const options = { port: server.port, path: '/api/v1/scans', method: 'POST', agent, headers };
      const sent = request(options, (response) => {
        response.resume();
        response.on('end', () => end(String(response.statusCode)));
        response.on('error', (error) => end(error.message));
      });
      sent.on('error', (error) => end(error.message));
      serial += 1;
      sent.end(form.replace('SERIAL', `${serial}-${clients}`));
    });
  const loops = Array.from({ length: clients }, async () => {
    while (!over) {
      await one();
      await setTimeout(PAUSE_MS);
    }
  });
  return async () => {
    over = true;
    await Promise.all(loops);
    return counts;
  };
}

t.test('replaced on SIGUSR2 again and again, under load, no request fails', async (t) => {
  const server = await start(t);
  const endShort = load(server, 10, false);
  const keepAlive = new Agent({ keepAlive: true, maxSockets: 10 });
  const endLong = load(server, 10, keepAlive);
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

t.test('a scan that hangs is answered at its deadline, others go on, and its process is replaced', async (t) => {
  const server = await start(t, { ...faultEnvironment, SCAN_TIMEOUT_MS: '8000' });
  const [old] = childrenOf(server.pid);
  const end = load(server, 4, false);
  // As many as there are threads.
  const hung = await Promise.all(['1', '2'].map((rest) => upload(server.url, faulty('hang sleep', rest))));
  for (const { status, body } of hung) {
    t.equal(status, 422);
    t.match(body, { message: /Scan incomplete: scan exceeded 8000 ms/ });
  }
  await server.printed(/"msg":"(replaced)"/);
  await until(() => old === undefined || !childrenOf(server.pid).includes(old));
  const counts = await end();
  t.comment(JSON.stringify(counts));
  t.strictSame(Object.keys(counts), ['200']);
  // What hung once may hang again; the third time it isn't tried any more.
  t.equal((await upload(server.url, faulty('hang sleep', '1'))).status, 422);
  await server.printed(/"crashes":2,"refused":(true)/);
  const { status, body } = await upload(server.url, faulty('hang sleep', '1'));
  t.equal(status, 422);
  t.match(body, { message: 'Scan incomplete: engine crashed on this content' });
  t.equal(await server.stop(), 0);
});

t.test(
  'a crash loses what was in flight and nothing else; content of two crashes is refused, after a restart as well',
  async (t) => {
    const env = { ...faultEnvironment, BOOTSTRAP_PLAN: 'HUGE' };
    const server = await start(t, env);
    const crash = faulty('crash segv', 'content');
    for (let time = 1; time <= 2; time += 1) {
      await t.rejects(upload(server.url, crash), 'no verdict, no answer at all');
      await server.printed(new RegExp(`(?:"msg":"(signatures loaded)"[\\s\\S]*){${time + 1}}`));
      t.equal((await upload(server.url, `other content ${time}`)).status, 200);
    }
    const refused = await upload(server.url, crash);
    t.equal(refused.status, 422);
    t.match(refused.body, { error: 'Scan failed', message: 'Scan incomplete: engine crashed on this content' });
    t.equal(
      (await upload(server.url, faulty('crash segv', 'other').subarray(1))).status,
      200,
      'other content is scanned',
    );
    t.equal(server.output().split('restarting').length, 3, 'it did not crash a third time');
    t.equal(await server.stop(), 0);
  },
);

t.test(
  'the embedded database and its counts outlive the process: a replacement under load, to the last unit',
  async (t) => {
    const server = await startServer({ env: { PLANS: 'SMALL:300', BOOTSTRAP_PLAN: 'SMALL', SCAN_THREADS: '2' } });
    t.teardown(() => server.stop('SIGKILL'));
    await enoughOfTheHour(120_000);
    const keepAlive = new Agent({ keepAlive: true, maxSockets: 4 });
    const ends = [load(server, 2, false), load(server, 4, keepAlive)];
    process.kill(server.pid, 'SIGUSR2');
    await server.printed(/"msg":"(replaced)"/);
    await server.printed(/"msg":"(stopped)"/);
    // Until the limit is reached, if it isn't yet.
    let more = 0;
    while ((await upload(server.url, 'the last ones')).status === 200) more += 1;
    const sums: Counts = {};
    for (const end of ends)
      for (const [status, count] of Object.entries(await end())) sums[status] = (sums[status] ?? 0) + count;
    keepAlive.destroy();
    t.comment(JSON.stringify(sums));
    t.strictSame(Object.keys(sums).sort(), ['200', '429']);
    t.equal((sums['200'] ?? 0) + more, 300, 'every unit is taken once');
    const rows = await (await fetch(`${server.url}/readyz`)).json();
    t.match(rows, { status: 'ready' });
    // It comes back, and nobody but its queries notices.
    const database = databaseOf(server.pid);
    process.kill(database, 'SIGKILL');
    await server.printed(/"msg":"(the embedded database ended, restarting)"/);
    // Until the database is back scans may have a 503; the readiness is up to a second old.
    let status = 503;
    while (status === 503) ({ status } = await upload(server.url, 'the limit stays'));
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
  const server = await start(t, env);
  breakIt();
  process.kill(server.pid, 'SIGUSR2');
  await server.printed(/"msg":"(not taking over: the process that serves does it better)"/);
  await server.printed(/"msg":"(the new process failed, the old one goes on)"/);
  t.match((await upload(server.url, 'some text')).headers.get('x-scan-engine'), /^clamav/);
  t.equal(await server.stop(), 0);

  const degraded = await start(t, env);
  t.match((await upload(degraded.url, 'some text')).headers.get('x-scan-engine'), /^yara-x/);
  process.kill(degraded.pid, 'SIGUSR2');
  await degraded.printed(/"msg":"(replaced)"/);
  t.match((await upload(degraded.url, 'other text')).headers.get('x-scan-engine'), /^yara-x/);
  t.equal(await degraded.stop(), 0);
});

t.test('a successor in the place of a dead process stays, also when its signatures do not load', async (t) => {
  const { folder, breakIt } = breakable(t, {});
  const env = { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '0', ENGINE: 'clamav' };
  const server = await start(t, env);
  const old = childrenOf(server.pid);
  breakIt();
  process.kill(server.pid, 'SIGUSR2');
  let fresh: number | undefined;
  while (fresh === undefined) {
    await new Promise((resolve) => setImmediate(resolve));
    // Stopped before its exec it would stop the supervisor as well, which waits for that.
    fresh = childrenOf(server.pid).find(
      (pid) => !old.includes(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--no-supervisor'),
    );
  }
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

t.test('a process over its bound of memory takes no scan and is restarted', async (t) => {
  const server = await start(t, { ...faultEnvironment, MEMORY_LIMIT_MB: '600' });
  t.equal((await upload(server.url, 'before')).status, 200);
  t.equal((await upload(server.url, faulty('leak 700'))).status, 200);
  await server.printed(/"enough":"MEMORY_LIMIT_MB=(\d+)","msg":"memory is over its bound: no scan is taken"/);
  await server.printed(/(?:"msg":"(listening)"[\s\S]*){2}/);
  await server.printed(/(?:"msg":"(signatures loaded)"[\s\S]*){2}/);
  t.equal((await upload(server.url, 'after')).status, 200);
  t.notMatch(server.output(), 'server ended, restarting');
  t.equal(await server.stop(), 0);
});

t.test('two processes share the embedded database, with Redis for their counts', async (t) => {
  const env = { PROCESSES: '2', REDIS_URL: redis.url, PLANS: 'SMALL:30', BOOTSTRAP_PLAN: 'SMALL', SCAN_THREADS: '1' };
  await enoughOfTheHour(100_000);
  const server = await startServer({ env });
  t.teardown(() => server.stop('SIGKILL'));
  for (const message of ['listening', 'signatures loaded']) {
    await server.printed(new RegExp(`(?:"msg":"(${message})"[\\s\\S]*){2}`));
  }
  t.equal(childrenOf(server.pid).length, 3);
  const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => upload(server.url, `content ${index}`)));
  t.equal(answers.filter(({ status }) => status === 200).length, 30);
  t.equal(answers.filter(({ status }) => status === 429).length, 10);
  t.equal(await server.stop(), 0);
});

t.test('two processes serve one port, and one that is killed leaves the other', async (t) => {
  const server = await start(t, { PROCESSES: '2' });
  for (const message of ['listening', 'signatures loaded']) {
    await server.printed(new RegExp(`(?:"msg":"(${message})"[\\s\\S]*){2}`));
  }
  const pids = childrenOf(server.pid);
  t.equal(pids.length, 2);
  const [first] = pids;
  if (first !== undefined) process.kill(first, 'SIGKILL');
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) => upload(server.url, `content ${index}`).catch(() => null)),
  );
  t.ok(answers.some((answer) => answer?.status === 200));
  await server.printed(/(?:"msg":"(listening)"[\s\S]*){3}/);
  t.equal(await server.stop(), 0);
});
