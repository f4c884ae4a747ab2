// A process that stood still, as one that has no processor or is suspended: what its clients sent meanwhile is read before anybody is too late.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { canGuardSweeps } from '../../src/http/connections.js';
import { chooseLibrary, startServer } from '../../src/http/server.js';
import { socketsAddonPath } from '../../src/paths.js';
import { CoarseTimer } from '../../src/waiting/coarse-timer.js';
import { librariesHere } from '../fixtures/libraries.js';
import { openRaw } from '../fixtures/raw-http.js';
import { startServer as startService } from '../fixtures/server.js';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** After which both libraries may end an idle connection. */
const IDLE_LEAST_MS = 8_000;
/** Together more than the 12 s after which both libraries have ended one, and each less than that. */
const IDLE_MS = 7_500;
const STILL_MS = 5_000;
/** uWebSockets.js counts silence every four seconds since it was loaded. With this it counts twice in the first time and once in the second, which is all it takes. */
const PHASE_MS = 1_500;

/** One of each library. */
async function startServers(
  t: Test,
  isWanted: (name: string) => boolean = () => true,
): Promise<{ readonly names: readonly string[]; readonly ports: readonly number[] }> {
  const names = (await librariesHere()).filter(isWanted);
  const servers = await Promise.all(
    names.map(async (name) =>
      startServer({
        library: await chooseLibrary(name),
        host: '127.0.0.1',
        port: 0,
        handle: (exchange) => exchange.reply({ status: 200, body: '{}' }),
        onEnd: () => undefined,
      }),
    ),
  );
  t.teardown(() => Promise.all(servers.map((server) => server.stop(0))));
  return { names, ports: servers.map(({ port }) => port) };
}

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

t.test('a kept connection whose next request came while the server stood still has its answer', async (t) => {
  const { names, ports } = await startServers(t, (name) => name === 'node' || canGuardSweeps());
  await delay(PHASE_MS);
  for (;;) {
    const clients = await Promise.all(ports.map((port) => openRaw(port)));
    t.teardown(() => clients.map((client) => client.end()));
    const startedMs = performance.now();
    for (const client of clients) await client.send(GET);
    for (const client of clients) t.equal((await client.answer())?.status, 200);
    await delay(IDLE_MS);
    // Behind it timers are looked at before sockets.
    await nextTurn();
    // On a busy machine they may be ended by now: once more.
    if (performance.now() - startedMs >= IDLE_LEAST_MS) continue;
    for (const client of clients) client.socket.write(GET);
    standStill(STILL_MS);
    for (const [index, client] of clients.entries()) t.equal((await client.answer())?.status, 200, names[index] ?? '');
    return;
  }
});

t.test('a look at what is ready takes nothing from the event loop of this version of Node', async (t) => {
  const script = `const { existsSync, readdirSync, readFileSync } = require('node:fs');
    const folder = '/proc/self/fdinfo/';
    setImmediate(() => {
      // The list's own descriptor is gone when it is read.
      const paths = readdirSync(folder).map((name) => folder + name);
      for (const path of paths.filter(existsSync)) console.log(readFileSync(path, 'latin1'));
    });`;
  const watched = execFileSync(process.execPath, ['-e', script], { encoding: 'latin1' }).match(/^tfd:.*events: *\S+/gm);
  t.ok(watched !== null);
  // EPOLLET is the uppermost bit of eight digits.
  t.equal(
    watched?.some((line) => /events: *[89a-f][0-9a-f]{7}$/.test(line)),
    !canGuardSweeps(),
  );
});

t.test('the log says that such connections are ended where the timer of that is not found', async (t) => {
  const script = `const load = process.dlopen;
    process.dlopen = (module, path, ...flags) => {
      load.call(process, module, path, ...flags);
      if (path === '${socketsAddonPath}') module.exports.guardSweeps = () => false;
    };`;
  const preload = `--import=data:text/javascript,${encodeURIComponent(script)}`;
  const isLookedFor = canGuardSweeps() && (await librariesHere()).includes('uws');
  for (const [env, times] of [
    [{}, 0],
    [{ NODE_OPTIONS: preload }, isLookedFor ? 1 : 0],
  ] as const) {
    const service = await startService({ env: { HTTP_SERVER: 'auto', ...env } });
    await service.stop();
    t.equal(service.output().match(/"level":40.*no timer that we know.*HTTP library/g)?.length ?? 0, times);
  }
});

t.test('a connection that says nothing is ended all the same', async (t) => {
  const { ports } = await startServers(t);
  const clients = await Promise.all(ports.map((port) => openRaw(port)));
  await Promise.all(clients.map((client) => client.closed()));
});

t.test('a deadline that was reached while the process stood still is due after what arrived meanwhile', async (t) => {
  const events: string[] = [];
  const listener = createServer((socket) => socket.on('data', () => events.push('bytes')));
  t.teardown(() => listener.close());
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  const address = listener.address();
  if (address === null || typeof address === 'string') throw new Error('It has a port');
  const socket = connect(address.port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  await Promise.all([once(socket, 'connect'), once(listener, 'connection')]);
  const due = new Promise<void>((resolve) => {
    const timer = new CoarseTimer({
      onDue() {
        events.push('due');
        resolve();
      },
    });
    timer.start(100);
  });
  await nextTurn();
  socket.write('a');
  standStill(500);
  await due;
  t.strictSame(events, ['bytes', 'due']);
});
