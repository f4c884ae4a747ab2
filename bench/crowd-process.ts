// The crowd of bench/crowd.ts, and of a test: connections that say nothing and streams that drip. It is spoken to in lines: `open CLAMD_PORT ICAP_PORT IDLE SLOW` is answered with how many
// are open, `close` with how many the server had ended by itself.
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { request } from '../test/icap/client.js';

/** At a time. */
const OPENING = 200;
const DRIP_MS = 1_000;

const CLAMD_BEGIN = Buffer.from('zINSTREAM\0\0\0\0\x01a', 'latin1');
const CLAMD_DRIP = Buffer.from('\0\0\0\x01a', 'latin1');
const ICAP_DRIP = Buffer.from('1\r\na\r\n');
/** Without its end. */
const ICAP_BEGIN = request({
  body: Buffer.from('a'),
  http: 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n',
}).bytes.subarray(0, -'0\r\n\r\n'.length);

const sockets = new Set<Socket>();
let drips: NodeJS.Timeout[] = [];
let ended = 0;

async function open(port: number, begin: Buffer | null, drip: Buffer | null): Promise<void> {
  const socket = createConnection({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    if (sockets.delete(socket)) ended += 1;
  });
  await once(socket, 'connect');
  sockets.add(socket);
  socket.resume();
  if (begin !== null) socket.write(begin);
  if (drip !== null) drips.push(setInterval(() => socket.write(drip), DRIP_MS));
}

async function openAll(work: readonly (() => Promise<void>)[]): Promise<void> {
  for (let at = 0; at < work.length; at += OPENING) await Promise.all(work.slice(at, at + OPENING).map((one) => one()));
}

function closeAll(): void {
  for (const drip of drips) clearInterval(drip);
  drips = [];
  for (const socket of [...sockets]) {
    sockets.delete(socket);
    socket.destroy();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...numbers] = line.split(' ');
  const [clamd = 0, icap = 0, idle = 0, slow = 0] = numbers.map(Number);
  if (word === 'open') {
    ended = 0;
    const quiet = [clamd, icap].flatMap((port) => Array.from({ length: idle }, () => () => open(port, null, null)));
    const slowOnes = Array.from({ length: slow }, () => [
      () => open(clamd, CLAMD_BEGIN, CLAMD_DRIP),
      () => open(icap, ICAP_BEGIN, ICAP_DRIP),
    ]);
    await openAll([...quiet, ...slowOnes.flat()]);
    process.stdout.write(`${sockets.size}\n`);
  } else {
    closeAll();
    process.stdout.write(`${ended}\n`);
  }
}
closeAll();
