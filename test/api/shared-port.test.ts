// Several processes on one port: one that comes later gets as many connections as the others have, and none is lost while a process is killed or replaced.
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { createConnection } from 'node:net';
import t, { type Test } from 'tap';
import { startBusyServer } from '../fixtures/busy-server.js';
import { startPostgres } from '../fixtures/postgres.js';
import { childrenOf } from '../fixtures/processes.js';
import { connectionsAt } from '../fixtures/raw-http.js';
import { startRedis } from '../fixtures/redis.js';
import type { TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';

const LIVE = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n';
/** A connection that is silent for 8 s may be ended. */
const ASK_AGAIN_MS = 1_000;

const [postgres, redis] = await Promise.all([startPostgres({ t }), startRedis({ t })]);

async function startTwo(t: Test): Promise<TestServer> {
  const server = await startBusyServer(t, { postgres, redis }, { PROCESSES: '2', SCAN_THREADS: '1' });
  await listening(server, 2);
  return server;
}

/** So many processes have begun to listen so far. */
async function listening(server: TestServer, count: number): Promise<void> {
  await until(() => server.output().split('"msg":"listening"').length > count);
}

/** Resolves when it has an answer; it goes on asking, so that it is kept. */
async function open(t: Test, { port }: TestServer): Promise<void> {
  const socket = createConnection(port, '127.0.0.1').on('error', () => undefined);
  const asking = setInterval(() => socket.write(LIVE), ASK_AGAIN_MS);
  t.teardown(() => {
    clearInterval(asking);
    socket.destroy();
  });
  socket.write(LIVE);
  await once(socket, 'data');
}

/** How many connections each of the server's processes has. */
function connectionsOf(server: TestServer): number[] {
  const sockets = new Set(connectionsAt(server.port).map((fields) => `socket:[${fields[9]}]`));
  return childrenOf(server.pid).map((pid) => openFiles(pid).filter((file) => sockets.has(file)).length);
}

function openFiles(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).map((name) => {
    try {
      return readlinkSync(`${folder}/${name}`);
    } catch {
      return 'closed meanwhile';
    }
  });
}

t.test('a process that comes later gets what comes, until it has about as many as the other one', async (t) => {
  const server = await startTwo(t);
  await Promise.all(Array.from({ length: 100 }, () => open(t, server)));
  const [one = 0, other = 0] = connectionsOf(server);
  const kept = Math.max(one, other);
  process.kill(childrenOf(server.pid)[one < other ? 0 : 1] ?? 0, 'SIGKILL');
  await listening(server, 3);
  t.equal(ahead(server), kept);
  // One after the other: who is first in each case would not make up for it.
  for (let count = 0; count < 2 * kept && ahead(server) > 10; count += 1) await open(t, server);
  t.ok(ahead(server) <= 10, String(connectionsOf(server)));
  t.equal(await server.stop(), 0);
});

/** By how many connections one process has more than the other one. */
function ahead(server: TestServer): number {
  const [one = 0, other = 0] = connectionsOf(server);
  return Math.abs(one - other);
}

t.test('none is lost while a process is killed or replaced beside another one', async (t) => {
  const server = await startTwo(t);
  let isOver = false;
  let answered = 0;
  const lost: string[] = [];
  // Each over a connection of its own. One that a process had accepted may be lost with it, and no other.
  const asking = Array.from({ length: 4 }, async () => {
    while (!isOver) {
      try {
        const response = await fetch(`${server.url}/livez`, { headers: { Connection: 'close' } });
        if ((await response.text()) === '' || response.status !== 200) lost.push(String(response.status));
        answered += 1;
      } catch (error) {
        lost.push(String(error));
      }
    }
  });
  await until(() => answered > 50);
  const [killed = 0] = childrenOf(server.pid);
  process.kill(killed, 'SIGKILL');
  await listening(server, 3);
  t.ok(lost.length <= asking.length, `killed: ${lost}`);
  lost.length = 0;
  process.kill(server.pid, 'SIGUSR2');
  await listening(server, 5);
  await until(() => childrenOf(server.pid).length === 2);
  isOver = true;
  await Promise.all(asking);
  t.strictSame(lost, [], 'replaced');
  t.equal(await server.stop(), 0);
});
