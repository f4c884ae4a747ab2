// Many, slow, stalled and vanishing clients: memory stays inside its bound, everybody gets an answer or a closed connection.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { upload } from '../fixtures/upload.js';

const MIB = 1024 * 1024;
const BUDGET_MIB = 64;
const UPLOAD_TIMEOUT_MS = 5_000;
/** The embedded database, Node and the engine themselves; measured about 400 MB after a first start. */
const BASE_BYTES = 600 * MIB;

/** Far more than reading the end of a connection takes. */
const VANISHED_MS = 5_000;

const server = await startServer({
  t,
  env: { UPLOAD_MEMORY_MB: String(BUDGET_MIB), UPLOAD_WAIT_MS: '2000', UPLOAD_TIMEOUT_MS: String(UPLOAD_TIMEOUT_MS) },
});

/** Looks at the server's memory until the work is done and returns the most that was seen. */
async function peakBytes(of: TestServer, work: Promise<unknown>): Promise<number> {
  let peak = 0;
  let done = false;
  void work.finally(() => {
    done = true;
  });
  while (!done) {
    await delay(5);
    peak = Math.max(peak, of.residentBytes());
    await fetch(`${of.url}/livez`).then((response) => response.arrayBuffer());
  }
  return peak;
}

/** What is sent for those that are refused has a rate (bodies.ts). */
const AT_ONCE = 60;

t.test(`${AT_ONCE} uploads of 10 MB at once each get 200 or 503, inside the memory bound`, async (t) => {
  const request = scanRequest(filePart(Buffer.alloc(10 * MIB, 'plain text, quickly scanned\n')));
  const statuses: (number | undefined)[] = [];
  const one = async (): Promise<void> => {
    const connection = await openRaw(server.port);
    void connection.send(request);
    statuses.push((await connection.answer())?.status);
    connection.end();
  };
  const work = Promise.all(Array.from({ length: AT_ONCE }, one));
  const peak = await peakBytes(server, work);
  const counts = new Map<number | undefined, number>();
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
  t.equal((counts.get(200) ?? 0) + (counts.get(503) ?? 0), AT_ONCE, JSON.stringify([...counts]));
  t.ok((counts.get(200) ?? 0) > 0, 'some are served');
  t.ok(peak < BASE_BYTES + 2 * BUDGET_MIB * MIB, `${Math.round(peak / MIB)} MiB at most`);
});

// Before the others: of requests that never arrive whole an account has 60 units an hour back.
t.test('an upload that takes too long gets its 408 and its unit back', async (t) => {
  await enoughOfTheHour();
  const before = await unitsLeft(server.url);
  const request = scanRequest(filePart(randomBytes(MIB)));
  const connection = await openRaw(server.port);
  await connection.send(request.subarray(0, 1000));
  const answer = await connection.answer();
  t.equal(answer?.status, 408);
  t.strictSame(JSON.parse(answer?.body ?? ''), {
    error: 'Request timeout',
    message: `Request not complete after ${UPLOAD_TIMEOUT_MS} ms`,
  });
  connection.end();
  const next = await upload(server.url, 'x');
  t.equal(next.status, 200);
  t.equal(Number(next.headers.get('x-ratelimit-remaining')), before - 1, 'what never arrived whole costs nothing');
});

t.test('a stalled upload is closed and its memory lent again', async (t) => {
  const request = scanRequest(filePart(randomBytes(10 * MIB)));
  // As many as the budget holds: nobody else could upload 10 MB while they keep it.
  const stalled = await Promise.all(Array.from({ length: 6 }, () => openRaw(server.port)));
  for (const connection of stalled) await connection.send(request.subarray(0, 100_000));
  t.equal((await upload(server.url, 'small ones find room')).status, 200);
  await Promise.all(stalled.map((connection) => connection.closed()));
  t.equal((await upload(server.url, Buffer.alloc(10 * MIB, 'x'))).status, 200);
});

t.test('uploads that vanish leave nothing behind', async (t) => {
  const request = scanRequest(filePart(randomBytes(9 * MIB)));
  for (let round = 0; round < 60; round += 1) {
    const connection = await openRaw(server.port);
    await connection.send(request.subarray(0, 200_000 + round * 50_000));
    if (round % 2 === 0) connection.socket.resetAndDestroy();
    else connection.end();
  }
  // As long as the server has not read of the last ends, their bytes wait for memory, and a younger upload is sent away.
  let status: number | undefined = 503;
  for (const endsAt = performance.now() + VANISHED_MS; status === 503 && performance.now() < endsAt; ) {
    status = (await upload(server.url, Buffer.alloc(10 * MIB, 'x'))).status;
  }
  t.equal(status, 200);
});
