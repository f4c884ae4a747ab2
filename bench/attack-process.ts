// One attack on a server of this machine, in a process of its own, until its standard input ends; then it says what it was answered.
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { type Asked, startFlood } from '../test/fixtures/flood.js';
import type { Attack } from './attacks.js';

/** Another one than the clients that are attacked have. */
const ATTACKER = '127.0.0.2';
/** Of what a connection is sent before the attacker looks whether the kernel takes more. */
const BURST = 200;

/** `{token}` stands for one of the form that a refresh token has, `{signature}` for one of the form that an access token's has; each time another one. */
function fill(text: string): string {
  const random = (bytes: number): string => randomBytes(bytes).toString('base64url');
  return text.replaceAll('{token}', () => random(32)).replaceAll('{signature}', () => random(64));
}

function filled({ method, path, headers, body }: Asked): Asked {
  const pairs = Object.entries(headers).map(([name, value]) => [name, fill(value)] as const);
  return {
    method,
    path: fill(path),
    headers: Object.fromEntries(pairs),
    ...(body === undefined ? {} : { body: fill(body) }),
  };
}

/** Sends the same bytes over and over; one that is closed is opened again. */
function startRaw(port: number, { connections, raw, reads }: Extract<Attack, { kind: 'raw' }>): () => string {
  const packet = Buffer.from(raw.repeat(BURST));
  const sockets = new Set<Socket>();
  let isOver = false;
  let opened = 0;
  function open(): void {
    if (isOver) return;
    opened += 1;
    const socket = connect({ port, host: '127.0.0.1', localAddress: ATTACKER });
    sockets.add(socket);
    const send = (): void => {
      while (!socket.destroyed && socket.write(packet));
    };
    socket.on('connect', send).on('drain', send);
    socket.on('error', () => undefined);
    if (reads) socket.resume();
    else socket.pause();
    socket.on('close', () => {
      sockets.delete(socket);
      // A client that only reconnects would be a test of the kernel.
      setTimeout(open, 100);
    });
  }
  for (let index = 0; index < connections; index += 1) open();
  return () => {
    isOver = true;
    for (const socket of sockets) socket.destroy();
    return `${opened} connections`;
  };
}

function startAsking(port: number, { connections, asked }: Extract<Attack, { kind: 'ask' }>): () => string {
  const flood = startFlood(port, { connections, localAddress: ATTACKER, next: () => filled(asked) });
  return () => {
    void flood.stop();
    return [...flood.answers].map(([status, count]) => `${count} of ${status}`).join(', ');
  };
}

const { port, attack }: { port: number; attack: Attack } = JSON.parse(process.argv[2] ?? '');
const stop = attack.kind === 'raw' ? startRaw(port, attack) : startAsking(port, attack);
process.stdin.resume();
process.stdin.on('end', () => {
  process.stdout.write(`${stop()}\n`, () => process.exit(0));
});
