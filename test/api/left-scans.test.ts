// Scans whose clients leave while they wait for a thread: they are not begun, neither while the server serves nor while it stops.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { REST_AFTER_MS } from '../../src/limits.js';
import { faultEnvironment, faulty, holdScans } from '../fixtures/faults.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { filePart, openRaw, type RawConnection, scanRequest } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';

const LEAVING = 4;
/** uWebSockets.js ends a connection that has been silent for 8 to 12 s, unless it isn't read. */
const LIBRARY_PATIENCE_SECONDS = 12;

// One thread for all; the last test stops it.
const server = await startServer({
  env: { ...faultEnvironment, SCAN_THREADS: '1', SCAN_THREADS_MOST: '1', PLANS: 'BUSINESS:100' },
});
t.teardown(() => server.stop('SIGKILL'));

interface Clients {
  readonly staying: RawConnection;
  readonly leaving: readonly RawConnection[];
  /** Ends the scan of the one that stays. */
  letGo(): void;
}

/** The thread is at the scan of the client that stays; behind it wait those of the clients that leave. Their requests are named by the round. */
async function fill(t: Test, round: string): Promise<Clients> {
  const { order, letGo } = holdScans(t);
  const staying = await send(`${round}-stays`, order);
  await until(async () => (await server.metric('sluice_scans_running')) === 1);
  const leaving: RawConnection[] = [];
  for (let index = 0; index < LEAVING; index += 1) {
    leaving.push(await send(`${round}-leaves-${index}`, order));
  }
  await until(async () => (await server.metric('sluice_scans_waiting')) === LEAVING);
  return { staying, leaving, letGo };
}

async function send(requestId: string, order: string): Promise<RawConnection> {
  const connection = await openRaw(server.port);
  const body = filePart(faulty(order, requestId));
  await connection.send(scanRequest(body, { 'X-Request-Id': requestId }));
  return connection;
}

async function leave(connections: readonly RawConnection[]): Promise<void> {
  for (const connection of connections) connection.end();
  await Promise.all(connections.map(({ socket }) => socket.closed || once(socket, 'close')));
}

/** What the log says of the scan of each client that has left: its status, and how long the engine had it. */
function recorded(round: string): Promise<string[]> {
  return Promise.all(
    Array.from({ length: LEAVING }, (_, index) =>
      server.printed(new RegExp(`^(?=.*"requestId":"${round}-leaves-${index}").*"status":(\\d+).*"msg":"scan"`, 'm')),
    ),
  );
}

const ALL_LEFT = Array.from({ length: LEAVING }, () => '499');

t.test('a scan whose client leaves while it waits is not begun, and keeps its unit', async (t) => {
  await enoughOfTheHour();
  const before = await unitsLeft(server.url);
  const { staying, leaving, letGo } = await fill(t, 'serving');
  await leave(leaving);
  t.strictSame(await recorded('serving'), ALL_LEFT);
  t.notMatch(server.output(), '"requestId":"serving-stays"', 'before the thread was free');
  letGo();
  t.equal((await staying.answer())?.status, 200);
  t.equal(await unitsLeft(server.url), before - 1 - LEAVING);
});

t.test(
  'a client that stays is waited for, also beyond the time that the HTTP library gives a silent connection',
  async (t) => {
    const first = await send('first', `hang sleep ${LIBRARY_PATIENCE_SECONDS + 1}`);
    const second = await send('second', 'hang sleep 0');
    t.equal((await first.answer())?.status, 200);
    t.equal((await second.answer())?.status, 200);
  },
);

t.test('a request that comes while a scan runs that had to wait is answered after it', async (t) => {
  const held = holdScans(t);
  const first = await send('first', 'hang sleep 1');
  const second = await send('second', held.order);
  t.equal((await first.answer())?.status, 200);
  // While it waited its socket was read. Some milliseconds into the scan it isn't any more; a request before that would close the connection (docs/api.md).
  await delay(10 * REST_AFTER_MS);
  await second.send('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
  held.letGo();
  t.equal((await second.answer())?.status, 200, 'the scan');
  t.equal((await second.answer())?.status, 200, 'the request behind it');
});

t.test('a stop answers the client that stays, and begins no scan for those that have left', async (t) => {
  const { staying, leaving, letGo } = await fill(t, 'stopping');
  await leave(leaving);
  const stopped = server.stop();
  t.strictSame(await recorded('stopping'), ALL_LEFT);
  letGo();
  t.equal((await staying.answer())?.status, 200);
  t.equal(await stopped, 0);
});
