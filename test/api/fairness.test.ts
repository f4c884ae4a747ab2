// Two accounts over the wire: one sends archives that take seconds of engine each, as many as it can, and the other one's small scans are answered all the same.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createKey } from '../../src/account/keys.js';
import { openPostgres } from '../../src/store/postgres.js';
import { faultEnvironment, faulty, holdScans } from '../fixtures/faults.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { newUser } from '../fixtures/new-user.js';
import { startPostgres } from '../fixtures/postgres.js';
import { openRaw } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
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

const postgres = await startPostgres({ t });
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

async function keyOfAnother(): Promise<string> {
  const store = await openPostgres({ kind: 'url', url });
  const key = await createKey(store.sql, { userId: await newUser(store.sql, 'other@example.com'), name: 'a key' });
  await store.close();
  return key.value;
}

/** One more scan of the account whose queue is full, by each way in which its body can come: it costs nothing, and leaves nothing. */
async function beyondItsShare(t: Test): Promise<void> {
  const before = await server.metric('sluice_scans_refused_total{reason="queueShareFull"}');
  const quota = await unitsLeft(server.url);
  const sizes = [10, 15_000, 60_000, 70_000, 1_000_000];
  for (const size of sizes) {
    const { status, headers, body } = await upload(server.url, Buffer.alloc(size, 'x'));
    t.equal(status, 503, `${size} bytes`);
    t.match(body, { error: 'Service unavailable', message: 'Too many scans of this account are waiting' });
    t.equal(headers.get('retry-after'), '2');
    t.match(headers.get('x-request-id'), /./);
    t.equal(headers.get('x-content-type-options'), 'nosniff');
    t.equal(headers.get('x-scan-id'), null, 'it has no row');
    t.equal(headers.get('x-ratelimit-limit'), null, 'the quota was not asked');
  }
  t.match(await begunUpload(60_000), /^HTTP\/1\.1 503 /, 'a body that does not come is not waited for');
  t.equal(await server.metric('sluice_scans_refused_total{reason="queueShareFull"}'), before + sizes.length + 1);
  t.equal(await unitsLeft(server.url), quota);
  await leave(60_000);
  await Promise.all([onOneConnection(t), sendingSlowly(t, 10_000), sendingSlowly(t, 60_000)]);
  t.equal(
    (await upload(server.url, 'x', { key: 'f'.repeat(32) })).status,
    401,
    'a key that nobody knows is refused for that',
  );
  const large = await upload(server.url, Buffer.alloc(2_000_000, 'x'));
  t.not(
    large.headers.get('x-scan-id'),
    null,
    'over 1 MB has a queue of its own, which says it when the content is there',
  );
}

/** A connection goes on behind a refusal, whatever is answered before the body has come; what contradicts itself ends it, as ever. */
/** The answer is there long before the body is, and the connection ends with it: the client reads it all the same, once it has sent all. */
async function sendingSlowly(t: Test, size: number): Promise<void> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.pause().write(headOf(size).replace('Host: a', 'Host: a\r\nConnection: close'));
  const piece = Buffer.alloc(size / 10, 'x');
  for (let sent = 0; sent < size; sent += piece.length) {
    await delay(10);
    socket.write(piece);
  }
  const said: Buffer[] = [];
  for await (const bytes of socket) said.push(Buffer.from(bytes));
  t.match(Buffer.concat(said).toString(), /^HTTP\/1\.1 503 /, `${size} bytes, piece by piece`);
}

async function onOneConnection(t: Test): Promise<void> {
  const client = await openRaw(Number(new URL(server.url).port));
  t.teardown(() => client.end());
  for (const size of [10, 60_000, 100]) {
    await client.send(`${headOf(size)}${'x'.repeat(size)}`);
    t.equal((await client.answer())?.status, 503, `${size} bytes on a connection`);
  }
  await client.send(headOf(10).replace('Host: a', `Host: a\r\nX-API-KEY: ${API_KEY}`));
  t.equal((await client.answer())?.status, 400, 'a repeated key');
}

/** The answer to an upload whose body has begun, and goes no further. */
async function begunUpload(size: number): Promise<string> {
  const socket = beginUpload(size);
  const [answer] = await once(socket, 'data');
  socket.destroy();
  return String(answer);
}

/** A client that leaves before its answer. */
async function leave(size: number): Promise<void> {
  const socket = beginUpload(size);
  await once(socket, 'connect');
  socket.destroy();
}

function beginUpload(size: number): Socket {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.write(`${headOf(size)}--b\r\n`);
  return socket;
}

function headOf(size: number): string {
  const head = ['POST /api/v1/scans HTTP/1.1', 'Host: a', `X-API-KEY: ${API_KEY}`, `Content-Length: ${size}`];
  return `${[...head, 'Content-Type: multipart/form-data; boundary=b'].join('\r\n')}\r\n\r\n`;
}

t.test('an account that wants all scan threads and the whole queue takes nothing from another one', async (t) => {
  await enoughOfTheHour(60_000);
  const key = await keyOfAnother();
  // Each keeps a core busy for seconds; the bytes make the contents differ. The first ones hold all threads, for as long as is looked at what the others get.
  const { order, letGo } = holdScans(t, 'busy');
  const slow = (count: number, what: string) =>
    Array.from({ length: count }, () => upload(server.url, faulty(what, String(Math.random()))));
  const attack = slow(THREADS_SHARE, order);
  await until(async () => (await server.metric('sluice_scans_running')) >= THREADS_SHARE);
  attack.push(...slow(SHARE + 4, 'hang busy 1'));
  await until(async () => (await server.metric('sluice_scans_waiting')) >= SHARE);

  for (let round = 0; round < 10; round += 1) {
    const startedMs = performance.now();
    const beside = [upload(server.url, `small ${round}`, { key }), upload(server.url, `other ${round}`, { key })];
    for (const { status } of await Promise.all(beside)) t.equal(status, 200);
    t.ok(performance.now() - startedMs < PROMISED_MS, `round ${round}`);
  }
  const infected = await upload(server.url, eicar(), { key });
  t.match(infected.body, { infected: true });
  await beyondItsShare(t);
  t.ok((await server.metric('sluice_scans_waiting')) > 0, 'the attack goes on');
  t.ok((await server.metric('sluice_scan_wait_seconds_count{class="stand_in"}')) > 0);

  letGo();
  const answers = await Promise.all(attack);
  const served = answers.filter(({ status }) => status === 200);
  t.equal(served.length, THREADS_SHARE + SHARE, 'what the account may have of the queue is served, later');
  for (const { status, headers, body } of answers.filter((answer) => !served.includes(answer))) {
    t.equal(status, 503);
    t.match(body, { error: 'Service unavailable', message: 'Too many scans of this account are waiting' });
    t.ok(Number(headers.get('retry-after')) > 0);
  }
  const store = await openPostgres({ kind: 'url', url });
  const [refused] = await store.sql`SELECT sum(refused)::float8 AS scans FROM refused_hours`;
  await store.close();
  t.equal(
    refused?.['scans'],
    await server.metric('sluice_scans_refused_total{reason="queueShareFull"}'),
    "in the account's hour",
  );
  t.equal(await server.metric('sluice_scan_threads_standing_in'), 0);
  t.equal(await server.metric('sluice_accounts_waiting'), 0);
});
