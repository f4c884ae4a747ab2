// Two accounts over the wire: one sends archives that take seconds of engine each, as many as it can, and the other one's small scans are answered all the same.
import t from 'tap';
import { createKey } from '../../src/account/keys.js';
import { openPostgres } from '../../src/store/postgres.js';
import { newUser } from '../fixtures/dashboard.js';
import { faultEnvironment, faulty } from '../fixtures/faults.js';
import { startPostgres } from '../fixtures/postgres.js';
import { eicar } from '../fixtures/samples.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

/** What the contract promises to who isn't in the way of others. */
const PROMISED_MS = 3_000;
const QUEUE = 12;
const THREADS = 2;
/** With those beside the set, of which half are for content over 1 MB; and what one account may have of the others. */
const THREADS_MOST = 6;
const THREADS_SHARE = 3;
/** What one account may have of the queue. */
const SHARE = 9;

const postgres = await startPostgres();
t.teardown(() => postgres.stop());
const url = await postgres.database();
const server = await startServer({
  env: {
    ...faultEnvironment,
    DATABASE_URL: url,
    PLANS: 'FREE:1000,BUSINESS:10000',
    SCAN_THREADS: String(THREADS),
    SCAN_THREADS_MOST: String(THREADS_MOST),
    SCAN_QUEUE: String(QUEUE),
  },
});
t.teardown(() => server.stop('SIGKILL'));
const metricsUrl = `http://127.0.0.1:${await server.printed(/"port":(\d+),"msg":"metrics"/)}/metrics`;

async function metric(name: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `)) ?? '';
  return Number(line.slice(name.length + 1));
}

async function keyOfAnother(): Promise<string> {
  const store = await openPostgres({ kind: 'url', url });
  const key = await createKey(store.sql, { userId: await newUser(store.sql, 'other@example.com'), name: 'a key' });
  await store.close();
  return key.value;
}

t.test('an account that wants all scan threads and the whole queue takes nothing from another one', async (t) => {
  const key = await keyOfAnother();
  // Each keeps a core busy for three seconds; the bytes make the contents differ. The first ones hold all threads.
  const slow = (count: number) =>
    Array.from({ length: count }, () => upload(server.url, faulty('hang busy 3', String(Math.random()))));
  const attack = slow(THREADS_SHARE);
  await until(async () => (await metric('sluice_scans_running')) >= THREADS_SHARE);
  attack.push(...slow(SHARE + 4));
  await until(async () => (await metric('sluice_scans_waiting')) >= SHARE);

  for (let round = 0; round < 10; round += 1) {
    const startedMs = performance.now();
    const beside = [upload(server.url, `small ${round}`, { key }), upload(server.url, `other ${round}`, { key })];
    for (const { status } of await Promise.all(beside)) t.equal(status, 200);
    t.ok(performance.now() - startedMs < PROMISED_MS, `round ${round}`);
  }
  const infected = await upload(server.url, eicar(), { key });
  t.match(infected.body, { infected: true });
  t.ok((await metric('sluice_scans_waiting')) > 0, 'the attack goes on');
  t.ok((await metric('sluice_scan_wait_seconds_count{class="stand_in"}')) > 0);

  const answers = await Promise.all(attack);
  const served = answers.filter(({ status }) => status === 200);
  t.equal(served.length, THREADS_SHARE + SHARE, 'what the account may have of the queue is served, later');
  for (const { status, headers, body } of answers.filter((answer) => !served.includes(answer))) {
    t.equal(status, 503);
    t.match(body, { error: 'Service unavailable', message: 'Too many scans of this account are waiting' });
    t.ok(Number(headers.get('retry-after')) > 0);
  }
  t.equal(await metric('sluice_scan_threads_standing_in'), 0);
  t.equal(await metric('sluice_accounts_waiting'), 0);
});
