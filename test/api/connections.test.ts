// More connections than there are descriptors: accounts are served all the same, nothing spins, and nobody pays for our own want.
import { once } from 'node:events';
import { readdirSync, renameSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { nestedZip, tar, zip } from '../fixtures/archives.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { startServer } from '../fixtures/server.js';
import { signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { type UploadAnswer, upload } from '../fixtures/upload.js';

const OPEN_FILES = 300;
const IDLE_SOCKETS = 400;

/** Sockets that say nothing; resolves when the kernel has taken all of them. */
async function idle(t: Test, port: number, count: number, localAddress: string): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: count }, () => connect({ port, host: '127.0.0.1', localAddress }));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  for (const socket of sockets) socket.on('error', () => undefined).resume();
  await Promise.all(sockets.map((socket) => socket.readyState !== 'opening' || once(socket, 'connect')));
  return sockets;
}

function open(sockets: readonly Socket[]): number {
  return sockets.filter(({ readyState }) => readyState === 'open').length;
}

/**
 * Waits until the flood is over: the address that has used up its share gets no more before some of its connections are idle, and
 * one is idle only when a request could have come.
 */
async function calm(url: string, sockets: readonly Socket[]): Promise<void> {
  const isServed = (): Promise<boolean> =>
    fetch(`${url}/livez`, { headers: { Connection: 'close' } }).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(async () => open(sockets) <= OPEN_FILES / 4 && (await isServed()));
}

/** Where the engine of that process unpacks. */
function engineFolder(pid: number): string {
  for (const parent of ['/dev/shm', tmpdir()]) {
    const name = readdirSync(parent).find((each) => each.startsWith(`sluice-engine-${pid}-`));
    if (name !== undefined) return join(parent, name);
  }
  throw new Error('The engine has no folder');
}

/** Over a connection of its own: one that was kept alive may be ended for others at the moment in which it is used again. */
async function uploadAnew(port: number, content: Uint8Array): Promise<{ status: number | undefined; body: unknown }> {
  const connection = await openRaw(port);
  await connection.send(scanRequest(filePart(content)));
  const answer = await connection.answer();
  connection.end();
  return { status: answer?.status, body: JSON.parse(answer?.body ?? 'null') };
}

const archive = zip([
  { name: 'inner.tar', content: tar([{ name: 'inner.zip', content: zip([{ name: 'a.com', content: eicar() }]) }]) },
]);

const few = { openFiles: OPEN_FILES, env: { SCAN_THREADS: '2', VERDICT_CACHE_MB: '0' } };
const direct = await startServer(few);
const behindProxy = await startServer({ ...few, env: { ...few.env, TRUSTED_PROXIES: '127.0.0.0/8' } });
t.teardown(() => Promise.all([direct.stop(), behindProxy.stop()]));

for (const [from, address, isCalmed, server] of [
  ['another address', '127.0.0.2', false, direct],
  ['the same address', '127.0.0.1', true, direct],
  ['behind the proxy that all others come through', '127.0.0.1', false, behindProxy],
] as const) {
  t.test(`idle sockets from ${from}, more than there are descriptors, leave others served`, async (t) => {
    await upload(server.url, archive);
    const sockets = await idle(t, server.port, IDLE_SOCKETS, address);
    if (isCalmed) await calm(server.url, sockets);
    const before = { cpu: server.cpuSeconds(), at: performance.now() };
    await delay(1_000);
    const share = (server.cpuSeconds() - before.cpu) / ((performance.now() - before.at) / 1000);
    t.ok(share < 0.5, `the processor has other things to do: ${share.toFixed(2)} of a core`);
    for (let round = 0; round < 5; round += 1) {
      const startedMs = performance.now();
      // Unpacking takes files.
      const clean = await uploadAnew(server.port, zip([{ name: `${round}.txt`, content: Buffer.from('harmless') }]));
      t.match(clean, { status: 200, body: { infected: false } });
      t.match(await uploadAnew(server.port, archive), { status: 200, body: { infected: true } });
      t.equal((await fetch(`${server.url}/livez`, { headers: { Connection: 'close' } })).status, 200);
      t.ok(performance.now() - startedMs < 3_000, 'within 3 s');
    }
    t.notMatch(server.output(), /EMFILE|Too many open files/);
  });
}

const server = await startServer({
  t,
  env: { CONNECTIONS: '64', CONNECTIONS_PER_ADDRESS: '16', VERDICT_CACHE_MB: '0' },
});

t.test('an address has its share of the connections, and those that are busy are not ended for others', async (t) => {
  const request =
    'POST /web/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{';
  const busy = await idle(t, server.port, 16, '127.0.0.2');
  await Promise.all(busy.map((socket) => new Promise((resolve) => socket.write(request, resolve))));
  // Until all of them have been read.
  await fetch(`${server.url}/livez`);
  const refused = await idle(t, server.port, 8, '127.0.0.2');
  await Promise.all(refused.map((socket) => socket.closed || once(socket, 'close')));
  t.equal(open(busy), 16);
  t.equal((await upload(server.url, 'hello')).status, 200, 'from another address');
  for (const socket of busy) socket.write('"a"}');
  const [answer] = await Promise.all(busy.map(async (socket) => String((await once(socket, 'data'))[0])));
  t.match(answer, /^HTTP\/1.1 400 /);
});

t.test(
  'a scan for which our own storage is short is a 503 with its unit back, and the next one is served',
  async (t) => {
    const content = zip([{ name: 'a.txt', content: Buffer.from('harmless') }]);
    const remaining = ({ headers }: UploadAnswer): number => Number(headers.get('x-ratelimit-remaining'));
    await enoughOfTheHour();
    const first = await upload(server.url, content);
    t.equal(first.status, 200);
    const folder = engineFolder(server.serverPid());
    renameSync(folder, `${folder}-away`);
    const without = await upload(server.url, content).finally(() => renameSync(`${folder}-away`, folder));
    t.equal(without.status, 503, JSON.stringify(without.body));
    t.match(without.body, { error: 'Service unavailable', message: 'The engine has no room to unpack' });
    t.match(without.headers.get('retry-after'), /^[1-9]/);
    t.equal(remaining(without), remaining(first), 'the unit is back');
    t.equal((await upload(server.url, content)).status, 200);
  },
);

const takeDescriptors = new URL('../fixtures/take-descriptors.js', import.meta.url).href;

t.test('operators see how a process is that has no file descriptor left', async (t) => {
  const env = { NODE_OPTIONS: `--import=${takeDescriptors}`, FREE_DESCRIPTORS: '0' };
  const server = await startServer({ t, openFiles: 1024, env });
  const { accessToken } = await signIn(server.url);
  const connection = await openRaw(server.port);
  t.teardown(() => connection.end());
  process.kill(server.serverPid(), 'SIGUSR2');
  await server.printed(/free descriptors: (\(0\))/);
  const head = `GET /web/admin/health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${accessToken}\r\n\r\n`;
  await connection.send(Buffer.from(head));
  const answer = await connection.answer();
  t.equal(answer?.status, 200);
  const { residentBytes, heapBytes } = JSON.parse(answer?.body ?? '').memory;
  t.ok(residentBytes > heapBytes && heapBytes > 1e6, 'memory as it was found last');
});

t.test('a scan that runs out of file descriptors in its middle is a 503 with its unit back', async (t) => {
  const server = await startServer({
    t,
    openFiles: 1024,
    env: { VERDICT_CACHE_MB: '0', NODE_OPTIONS: `--import=${takeDescriptors}` },
  });
  const infected = nestedZip(eicar(), 9);
  const clean = nestedZip(Buffer.from('harmless'), 9);
  // Before the connection, which would be idle for too long.
  await enoughOfTheHour(60_000);
  const connection = await openRaw(server.port);
  t.teardown(() => connection.end());
  async function scan(content = clean) {
    await connection.send(scanRequest(filePart(content, 'nested.zip')));
    const answer = await connection.answer();
    return { status: answer?.status, body: answer?.body, left: Number(answer?.headers.get('x-ratelimit-remaining')) };
  }
  let { left } = await scan();
  let refused = 0;
  // Other work of the process takes some of them for a moment: how many are enough for the scan is not known to one.
  for (let free = 3; free <= 8; free += 1) {
    process.kill(server.serverPid(), 'SIGUSR2');
    await server.printed(new RegExp(`free descriptors: (\\(${free}\\))`));
    for (const content of [clean, infected]) {
      const answer = await scan(content);
      if (answer.status === 200) {
        // What libclamav could not open is unpacked in memory, so something may be found all the same.
        t.match(answer.body, `"infected":${content === infected}`, `${free} free`);
        left -= 1;
      } else {
        t.match(answer, { status: 503, body: /The engine has no room to unpack/ }, `${free} free`);
        refused += 1;
      }
      t.equal(answer.left, left);
    }
  }
  t.ok(refused > 0);
  process.kill(server.serverPid(), 'SIGPWR');
  await server.printed(/descriptors are (\(back\))/);
  // The last look at the temporary folder had no descriptor, and counts until the next one, 20 ms later.
  const answers: Awaited<ReturnType<typeof scan>>[] = [];
  await until(async () => answers.push(await scan()) > 0 && answers.at(-1)?.status === 200);
  t.match(answers.at(-1), { status: 200, body: /"infected":false/ });
  for (const { status, body } of answers.slice(0, -1))
    t.match({ status, body }, { status: 503, body: /no room to unpack/ });
});
