// Scans whose clients leave while they wait for a thread: they are not begun, neither while the server serves nor while it stops.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { REST_AFTER_MS } from '../../src/limits.js';
import { faultEnvironment, faulty } from '../fixtures/faults.js';
import { filePart, openRaw, type RawConnection, scanRequest } from '../fixtures/raw-http.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

/** Of one scan: long enough to see what waits behind it, on a machine with other work. */
const SLOW_SECONDS = 2;
const LEAVING = 4;
/** uWebSockets.js ends a connection that has been silent for 8 to 12 s, unless it isn't read. */
const LIBRARY_PATIENCE_SECONDS = 12;

interface Setting {
  readonly server: TestServer;
  readonly staying: RawConnection;
  readonly leaving: readonly RawConnection[];
}

async function start(t: Test): Promise<TestServer> {
  const env = { ...faultEnvironment, SCAN_THREADS: '1', SCAN_THREADS_MOST: '1', PLANS: 'BUSINESS:100' };
  const server = await startServer({ env });
  t.teardown(() => server.stop('SIGKILL'));
  return server;
}

/** One thread, which is at the scan of the client that stays; behind it wait those of the clients that leave. */
async function fill(t: Test): Promise<Setting> {
  const server = await start(t);
  const url = `http://127.0.0.1:${await server.printed(/"port":(\d+),"msg":"metrics"/)}/metrics`;
  const seen = (line: string): Promise<true> =>
    until(async () => (await (await fetch(url)).text()).split('\n').includes(line) && true);
  const staying = await send(server, { requestId: 'stays', seconds: SLOW_SECONDS });
  await seen('sluice_scans_running 1');
  const leaving: RawConnection[] = [];
  for (let index = 0; index < LEAVING; index += 1) {
    leaving.push(await send(server, { requestId: `leaves-${index}`, seconds: SLOW_SECONDS }));
  }
  await seen(`sluice_scans_waiting ${LEAVING}`);
  return { server, staying, leaving };
}

interface SlowScan {
  readonly requestId: string;
  readonly seconds: number;
}

async function send(server: TestServer, { requestId, seconds }: SlowScan): Promise<RawConnection> {
  const connection = await openRaw(server.port);
  const body = filePart(faulty(`hang sleep ${seconds}`, requestId));
  await connection.send(scanRequest(body, { 'X-Request-Id': requestId }));
  return connection;
}

async function leave(connections: readonly RawConnection[]): Promise<void> {
  for (const connection of connections) connection.end();
  await Promise.all(connections.map(({ socket }) => socket.closed || once(socket, 'close')));
}

/** What the log says of the scan of each client that has left: its status, and how long the engine had it. */
function recorded(server: TestServer): Promise<string[]> {
  return Promise.all(
    Array.from({ length: LEAVING }, (_, index) =>
      server.printed(new RegExp(`^(?=.*"requestId":"leaves-${index}").*"status":(\\d+).*"msg":"scan"`, 'm')),
    ),
  );
}

const ALL_LEFT = Array.from({ length: LEAVING }, () => '499');

t.test('a scan whose client leaves while it waits is not begun, and keeps its unit', async (t) => {
  const { server, staying, leaving } = await fill(t);
  await leave(leaving);
  t.strictSame(await recorded(server), ALL_LEFT);
  t.notMatch(server.output(), '"requestId":"stays"', 'before the thread was free');
  t.equal((await staying.answer())?.status, 200);
  const { headers } = await upload(server.url, 'x');
  t.equal(headers.get('x-ratelimit-remaining'), String(100 - 1 - LEAVING - 1));
});

t.test('a stop answers the client that stays, and begins no scan for those that have left', async (t) => {
  const { server, staying, leaving } = await fill(t);
  await leave(leaving);
  const stopped = server.stop();
  t.equal((await staying.answer())?.status, 200);
  t.equal(await stopped, 0);
  t.strictSame(await recorded(server), ALL_LEFT);
});

t.test(
  'a client that stays is waited for, also beyond the time that the HTTP library gives a silent connection',
  async (t) => {
    const server = await start(t);
    const first = await send(server, { requestId: 'first', seconds: LIBRARY_PATIENCE_SECONDS + 1 });
    const second = await send(server, { requestId: 'second', seconds: 0 });
    t.equal((await first.answer())?.status, 200);
    t.equal((await second.answer())?.status, 200);
  },
);

t.test('a request that comes while a scan runs that had to wait is answered after it', async (t) => {
  const server = await start(t);
  const first = await send(server, { requestId: 'first', seconds: 1 });
  const second = await send(server, { requestId: 'second', seconds: 1 });
  t.equal((await first.answer())?.status, 200);
  // While it waited its socket was read. Some milliseconds into the scan it isn't any more; a request before that would close the connection (docs/api.md).
  await delay(10 * REST_AFTER_MS);
  await second.send('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
  t.equal((await second.answer())?.status, 200, 'the scan');
  t.equal((await second.answer())?.status, 200, 'the request behind it');
});
