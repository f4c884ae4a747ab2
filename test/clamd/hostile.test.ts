// Clients of clamd's protocol that are slow, many, silent or gone, and what stands in the way of the socket.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import t from 'tap';
import { CLAMD_SOCKET_CONNECTIONS } from '../../src/limits.js';
import { makeAccount } from '../fixtures/another-account.js';
import { faultEnvironment, faulty } from '../fixtures/faults.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { ask, bytesOf, CLEAN, chunk, EICAR, END, socketPlace, startOurs, stream, type Talk, talk } from './client.js';

const FOUND = 'stream: Sluice.Test.EICAR.UNOFFICIAL FOUND\0';

/** A process that is killed leaves its socket, at which nobody listens: whether it is there. */
async function leaveSocket(path: string): Promise<boolean> {
  const program = `require('net').createServer().listen(${JSON.stringify(path)})`;
  const dead = spawn(process.execPath, ['-e', program], { stdio: 'ignore' });
  await until(() => existsSync(path));
  dead.kill('SIGKILL');
  await once(dead, 'exit');
  return existsSync(path);
}

// For all that need no settings; the last test stops it.
const place = socketPlace();
const isLeft = await leaveSocket(place);
const { server, unix } = await startOurs({}, { path: place });
t.teardown(() => server.stop('SIGKILL'));
// For two; the second stops it.
const hurried = await startOurs({ UPLOAD_TIMEOUT_MS: '1000' });
t.teardown(() => hurried.server.stop('SIGKILL'));

t.test('what lies at the place of the socket stays, unless a killed process has left it', async (t) => {
  const path = socketPlace();
  writeFileSync(path, 'precious');
  await t.rejects(startOurs({}, { path }), /there is something else than a socket/);
  t.equal(readFileSync(path, 'utf8'), 'precious');
  rmSync(path);

  t.ok(isLeft);
  t.equal(await ask(unix, bytesOf('zPING\0')), 'PONG\0', 'at the place of one that a killed process has left');

  const other = createServer((socket) => {
    // Who looks whether anybody is there doesn't wait for the words.
    socket.on('error', () => undefined);
    socket.end('somebody else');
  });
  t.teardown(() => other.close());
  await once(other.listen(path), 'listening');
  await t.rejects(startOurs({}, { path }), /another process listens there/);
  t.equal(await ask({ path }, bytesOf('zPING\0')), 'somebody else', 'what is not ours is not removed');
});

t.test('a stream has its time as a whole, however its bytes drip', async (t) => {
  const { unix } = hurried;
  const silent = await talk(t, unix);
  silent.socket.write(bytesOf('zINSTREAM\0', chunk(CLEAN)));
  const dripping = await talk(t, unix);
  dripping.socket.write(bytesOf('zINSTREAM\0'));
  const drip = setInterval(() => dripping.socket.write(chunk(Buffer.from('a'))), 50);
  const inSession = await talk(t, unix);
  inSession.socket.write(bytesOf('zIDSESSION\0zPING\0zINSTREAM\0', Buffer.from([0, 0])));
  inSession.socket.write(bytesOf(Buffer.from([0, 3]), 'a'));
  const late = 'stream: Request not complete after 1000 ms ERROR\0';
  t.equal(await silent.whole, late);
  t.equal(await dripping.whole, late);
  clearInterval(drip);
  t.equal(await inSession.whole, `1: PONG\x002: ${late}`);
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(EICAR))), FOUND);
});

t.test('connections without a command, and those that read nothing, end after their time', async (t) => {
  const { server, unix, tcp } = hurried;
  const [idle, between, half, deaf] = await Promise.all([talk(t, tcp), talk(t, unix), talk(t, unix), talk(t, unix)]);
  between.socket.write('nIDSESSION\nnPING\n');
  half.socket.write('zPI');
  deaf.socket.pause();
  deaf.socket.write(bytesOf('zIDSESSION\0', 'zVERSION\0'.repeat(100_000)));
  t.equal(await idle.whole, 'COMMAND READ TIMED OUT\n');
  t.equal(await between.whole, '1: PONG\nCOMMAND READ TIMED OUT\n');
  t.equal(await half.whole, 'COMMAND READ TIMED OUT\n');
  t.equal(await server.stop(), 0);
  deaf.socket.resume();
  t.notMatch(await deaf.whole, '100000: ');
});

t.test('a client that reads no answers is kept waiting, and all others are served', async (t) => {
  const deaf = await talk(t, unix);
  deaf.socket.pause();
  const count = 300_000;
  deaf.socket.write(bytesOf('zIDSESSION\0', 'zVERSION\0'.repeat(count)));
  const before = server.residentBytes();
  // Its commands are not read to their end as long as nobody reads the answers.
  for (let round = 0; round < 20; round += 1) {
    t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN))), 'stream: OK\0');
  }
  t.ok(deaf.socket.writableLength > 0, 'it could not send everything');
  t.ok(server.residentBytes() - before < 50 * 1024 * 1024, 'what it sends is not gathered');
  deaf.socket.resume();
  deaf.socket.write('zEND\0');
  const answers = (await deaf.whole).split('\0');
  t.equal(answers.length, count + 1);
  t.match(answers.at(-2), new RegExp(`^${count}: ClamAV `));
});

t.test('connections beyond the limit are ended at once, and there is room when others have left', async (t) => {
  const { server, unix } = await startOurs({ CONNECTIONS: '100' }, { openFiles: 2_048 });
  t.teardown(() => server.stop('SIGKILL'));
  const most = Number(await server.printed(/"clamdConnections":(\d+)/));
  t.ok(most > 1_000, `${most}: what HTTP doesn't want is clamd's`);
  const open: Talk[] = [];
  for (let count = 0; count < most; count += 1) open.push(await talk(t, unix));
  for (let count = 0; count < 50; count += 1) {
    t.equal(await ask(unix, bytesOf('zPING\0')), '');
  }
  open.pop()?.socket.destroy();
  await until(async () => (await ask(unix, bytesOf('zPING\0'))) === 'PONG\0');
  for (const each of open) each.socket.write('zPING\0');
  for (const each of open) if ((await each.whole) !== 'PONG\0') t.fail('one of the others is not served');
  t.equal(await server.stop(), 0);
});

t.test('connections of the port, however many, leave the UNIX socket some', async (t) => {
  const { server, unix, tcp } = await startOurs({ CONNECTIONS: '100' }, { openFiles: 1_024 });
  t.teardown(() => server.stop('SIGKILL'));
  const most = Number(await server.printed(/"clamdConnections":(\d+)/));
  const ofPorts = most - Math.min(CLAMD_SOCKET_CONNECTIONS, most >> 2);
  const open: Talk[] = [];
  for (let count = 0; count < ofPorts; count += 1) open.push(await talk(t, tcp));
  for (let count = 0; count < 50; count += 1) t.equal(await ask(tcp, bytesOf('zPING\0')), '');
  for (let count = ofPorts; count < most; count += 1) open.push(await talk(t, unix));
  t.equal(await ask(unix, bytesOf('zPING\0')), '', 'there are no more than all');
  for (const each of open) each.socket.write('zPING\0');
  for (const each of open) if ((await each.whole) !== 'PONG\0') t.fail('one of them is not served');
  await until(async () => (await ask(tcp, bytesOf('zPING\0'))) === 'PONG\0');
  t.equal(await server.stop(), 0);
});

t.test("clamd's clients with scans that take long leave another account its share", async (t) => {
  const { server, unix } = await startOurs({
    ...faultEnvironment,
    REGISTRATION: 'open',
    SCAN_THREADS: '1',
    SCAN_THREADS_MOST: '2',
  });
  t.teardown(() => server.stop('SIGKILL'));
  const { key } = await makeAccount(server.url, 'other@example.org');
  const long = Array.from({ length: 6 }, (_, index) =>
    ask(unix, bytesOf('zINSTREAM\0', stream(Buffer.from(faulty('hang sleep 2', String(index)))))),
  );
  const order: string[] = [];
  for (const each of long) void each.then(() => order.push('long'));
  for (let round = 0; round < 5; round += 1) {
    t.equal((await upload(server.url, `small ${round}`, { key })).status, 200);
    order.push('other');
  }
  t.ok(order.lastIndexOf('other') < 7, `not behind all of them: ${order}`);
  for (const answer of await Promise.all(long)) t.match(answer, /^stream: /);
  t.equal(await server.stop(), 0);
});

t.test('signatures are loaded again while it scans, and no answer is wrong or missing', async (t) => {
  let isOver = false;
  let answered = 0;
  const client = async (name: number): Promise<void> => {
    while (!isOver) {
      answered += 1;
      const clean = Buffer.from(`clean ${name} ${answered}`);
      const [found, ok] = [bytesOf('zINSTREAM\0', stream(EICAR)), bytesOf('zINSTREAM\0', stream(clean))];
      const answer = await ask(unix, bytesOf('zIDSESSION\0', found, ok, 'zEND\0'));
      const expected = [`1: ${FOUND}`, '2: stream: OK\0'];
      if (!expected.every((each) => answer.includes(each))) t.fail(answer);
    }
  };
  const clients = [0, 1, 2].map(client);
  for (let round = 1; round <= 3; round += 1) {
    t.equal(await ask(unix, bytesOf('zRELOAD\0')), 'RELOADING\0');
    await server.printed(new RegExp(`(?:"msg":"(signatures loaded)"[\\s\\S]*){${round + 1}}`));
  }
  isOver = true;
  await Promise.all(clients);
  t.ok(answered > 10, `${answered} sessions`);
});

t.test('a client that leaves in its stream has its unit back, and its memory is free', async (t) => {
  const { server, unix, tcp } = await startOurs({
    PLANS: 'FREE:2,BUSINESS:2',
    STREAM_MAX_MB: '10',
    UPLOAD_MEMORY_MB: '64',
  });
  t.teardown(() => server.stop('SIGKILL'));
  const megabytes = Buffer.alloc(8 * 1024 * 1024, 'a');
  for (let round = 0; round < 20; round += 1) {
    const { socket } = await talk(t, tcp);
    await new Promise((resolve) => socket.write(bytesOf('zINSTREAM\0', chunk(megabytes)), resolve));
    if (round % 2 === 0) socket.destroy();
    else socket.resetAndDestroy();
  }
  // Of the memory for uploads these would have taken twice as much as there is.
  await until(async () => (await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN)))) === 'stream: OK\0');
  t.equal(await server.stop(), 0);
});

t.test('at a stop a stream is heard to its end, and sessions that wait for nothing end at once', async (t) => {
  const [idle, waiting, streaming] = await Promise.all([talk(t, unix), talk(t, unix), talk(t, unix)]);
  waiting.socket.write(bytesOf('zIDSESSION\0zPING\0'));
  streaming.socket.write(bytesOf('zIDSESSION\0zINSTREAM\0', chunk(EICAR)));
  await until(() => waiting.answer() === '1: PONG\0');
  // Its admission and its memory: it has begun when what follows it in the same process has been answered.
  await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN)));
  const stopped = server.stop();
  t.equal(await idle.whole, '');
  t.equal(await waiting.whole, '1: PONG\0');
  idle.socket.destroy();
  waiting.socket.destroy();
  await t.rejects(ask(unix, bytesOf('zPING\0')), 'nobody new is served');
  streaming.socket.write(bytesOf(END, 'zPING\0'));
  t.equal(await streaming.whole, `1: ${FOUND}`);
  streaming.socket.destroy();
  t.equal(await stopped, 0);
  t.notOk(existsSync(place), 'the socket is gone with the service');
});
