// What a server process survives, over the wire and with real processes: scans that hang, scans that crash it, memory that is lost.
import { createHash } from 'node:crypto';
import t from 'tap';
import { startBusyServer } from '../fixtures/busy-server.js';
import { faultEnvironment, faulty } from '../fixtures/faults.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { childrenOf } from '../fixtures/processes.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { steadyScans } from '../fixtures/steady-scans.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const postgres = await startPostgres({ t });
const redis = await startRedis({ t });
const stores = { postgres, redis };

t.test('a scan that hangs is answered at its deadline, others go on, and its process is replaced', async (t) => {
  const server = await startBusyServer(t, stores, { ...faultEnvironment, SCAN_TIMEOUT_MS: '8000' });
  const [old] = childrenOf(server.pid);
  const end = steadyScans(server, 4, false);
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
  // What hung once may hang again; what hung twice isn't tried any more. It has hung twice by now, or once: its process may have been replaced for the other one's sake.
  const content = faulty('hang sleep', '1');
  const hangs = `"sha256":"${createHash('sha256').update(content).digest('hex')}","crashes":`;
  for (let count = server.output().split(hangs).length; count <= 2; count += 1) {
    t.match(await upload(server.url, content), {
      status: 422,
      body: { message: /Scan incomplete: scan exceeded 8000 ms/ },
    });
    await server.printed(new RegExp(`(${hangs})${count}`));
  }
  await server.printed(new RegExp(`${hangs}2,"refused":(true)`));
  const { status, body } = await upload(server.url, content);
  t.equal(status, 422);
  t.match(body, { message: 'Scan incomplete: engine crashed on this content' });
  t.equal(await server.stop(), 0);
});

t.test(
  'a crash loses what was in flight and nothing else; content of two crashes is refused, after a restart as well',
  async (t) => {
    const env = { ...faultEnvironment, BOOTSTRAP_PLAN: 'HUGE' };
    const server = await startBusyServer(t, stores, env);
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

t.test('a process over its bound of memory takes no scan and is restarted', async (t) => {
  const server = await startBusyServer(t, stores, { ...faultEnvironment, MEMORY_LIMIT_MB: '600' });
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
  const server = await startServer({ isSupervised: true, env });
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
  const server = await startBusyServer(t, stores, { PROCESSES: '2' });
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
