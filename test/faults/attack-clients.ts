// The attackers of the mixed attack: each a loop over loopback that goes on until it is stopped, and counts what it did.
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { zip } from '../fixtures/archives.js';
import { chunked, filePart, scanRequest } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';

export interface AttackTarget {
  readonly port: number;
  readonly stop: AbortSignal;
}

export interface Attacker {
  /** Attempts by what became of them: a status, `infected`, `clean`, or `closed`. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** Resolves after the stop, with every connection closed. */
  readonly ended: Promise<void>;
}

/** Of an account: its key, and the loopback address that it comes from, since addresses have shares of the connections. */
export interface Account {
  readonly key: string;
  readonly address: string;
}

type Attempt = (round: number) => Promise<string>;

const MIB = 1024 * 1024;
/** Between two attempts of one client: nobody gains by connecting faster than this, and the machine has other work. */
const PAUSE_MS = 20;
/** An attempt is over after this, whatever the server does. */
const ATTEMPT_MS = 60_000;

function attack({ stop }: AttackTarget, clients: number, attempt: Attempt): Attacker {
  const outcomes: Record<string, number> = {};
  const loops = Array.from({ length: clients }, async (_, client) => {
    for (let round = client; !stop.aborted; round += clients) {
      const outcome = await attempt(round);
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      await pause(PAUSE_MS);
    }
  });
  return { outcomes, ended: Promise.all(loops).then(() => undefined) };
}

/** Opens a connection, lets `act` write to it, and resolves with the status that came back, or `closed`. */
function converse(
  { port, stop }: AttackTarget,
  localAddress: string,
  act: (socket: Socket) => Promise<void> | void,
): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    let answer = '';
    const end = (): void => {
      clearTimeout(timer);
      stop.removeEventListener('abort', end);
      socket.destroy();
      resolve(outcomeOf(answer) ?? 'closed');
    };
    const timer = setTimeout(end, ATTEMPT_MS);
    stop.addEventListener('abort', end);
    socket.on('data', (data) => {
      answer += data.toString('latin1');
      if (outcomeOf(answer) !== null) end();
    });
    socket.on('error', end).on('close', end);
    socket.on('connect', () => void act(socket));
  });
}

/** The status of an answer, or for a verdict `infected` or `clean`; null: more of it has to come. */
function outcomeOf(answer: string): string | null {
  const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1];
  if (status === undefined || !answer.includes('\r\n\r\n')) return null;
  if (status !== '200' || !/\r\nX-Scan-Id:/i.test(answer)) return status;
  const infected = /"infected":(true|false)/.exec(answer)?.[1];
  return infected === undefined ? null : infected === 'true' ? 'infected' : 'clean';
}

/** Uploads of one account that declare nothing and never end: 44 of them, 2 MB a second in all. */
export function dripUploads(target: AttackTarget, { key, address }: Account): Attacker {
  const piece = randomBytes(2300);
  // Without the closing delimiter, and without the last chunk.
  const start = chunked([filePart(piece).subarray(0, -'\r\n--BOUNDARY--\r\n'.length)]).subarray(0, -'0\r\n\r\n'.length);
  return attack(target, 44, () =>
    converse(target, address, async (socket) => {
      const request = scanRequest(start, {
        'X-API-KEY': key,
        'Content-Length': null,
        'Transfer-Encoding': 'chunked',
      });
      socket.write(request);
      for (let sent = 0; sent < 9 * MIB && !socket.destroyed; sent += piece.length) {
        await pause(50);
        socket.write(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]));
      }
    }),
  );
}

/** Small archives that unpack to as much as the limits allow: seconds of engine time for 128 KB of upload. */
export function slowArchives(target: AttackTarget, { key, address }: Account): Attacker {
  const layer = Buffer.alloc(60 * MIB, 'What unpacks to megabytes is looked at byte by byte.\n');
  const members = ['a', 'b', 'c'].map((name) => ({ name, content: layer }));
  const archive = zip(members);
  return attack(target, 18, (round) =>
    converse(target, address, (socket) => {
      // Behind the end of the archive, so that each content is another one.
      const content = Buffer.concat([archive, Buffer.from(`${round}`)]);
      socket.write(scanRequest(filePart(content, 'slow.zip'), { 'X-API-KEY': key }));
    }),
  );
}

/** Requests that are wrong in every way, uploads that vanish, and EICAR dressed up as something else: `clean` would be a lie. */
export function wrongRequests(target: AttackTarget, { key, address }: Account): Attacker {
  const form = filePart(eicar(), 'eicar.com');
  const encoded = Buffer.from(
    form
      .toString('latin1')
      .replace('\r\n\r\n', '\r\nContent-Transfer-Encoding: base64\r\n\r\n')
      .replace(eicar().toString('latin1'), eicar().toString('base64')),
    'latin1',
  );
  const whole = scanRequest(form, { 'X-API-KEY': key });
  const variants: readonly ((socket: Socket) => void)[] = [
    (socket) => socket.write(scanRequest(encoded, { 'X-API-KEY': key })),
    (socket) => socket.write(scanRequest(form, { 'X-API-KEY': key, 'Content-Encoding': 'gzip' })),
    (socket) => socket.write(scanRequest(form, { 'X-API-KEY': key, 'Content-Length': `${20 * MIB}` })),
    (socket) => socket.write(scanRequest(randomBytes(5000), { 'X-API-KEY': key })),
    (socket) => socket.write(whole.subarray(0, -30), () => socket.resetAndDestroy()),
    (socket) => socket.write(Buffer.concat([whole, whole, whole])),
    (socket) => socket.write(scanRequest(form.subarray(0, -20), { 'X-API-KEY': key })),
  ];
  return attack(target, 8, (round) =>
    converse(target, address, (socket) => variants[round % variants.length]?.(socket)),
  );
}

/** Strangers that send JSON of 256 KB to routes which may be asked without an account. */
export function strangersBodies(target: AttackTarget, address: string): Attacker {
  const body = Buffer.alloc(256 * 1024, ' ');
  const paths = ['/web/auth/login', '/web/auth/register', '/web/keys', '/web/users/me', '/webhooks/stripe'];
  return attack(target, 150, (round) =>
    converse(target, address, (socket) => {
      const head = `POST ${paths[round % paths.length]} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n`;
      socket.write(`${head}Content-Length: ${body.length}\r\n\r\n`);
      // All but the end: what was sent is to be held as long as possible.
      socket.write(body.subarray(1));
    }),
  );
}

/** Strangers that connect and say nothing, or half a header. */
export function idleConnections(target: AttackTarget, address: string): Attacker {
  return attack(target, 400, (round) =>
    converse(target, address, (socket) => void (round % 2 === 0 ? socket.write('GET / HTTP/1.1\r\nHo') : undefined)),
  );
}

/** Keep-alive connections that ask for the readiness without a pause, and sign-ins with wrong passwords beside them. */
export function healthStorm(target: AttackTarget, address: string): Attacker {
  const ask = 'GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n';
  const signIn = JSON.stringify({ email: 'nobody@example.com', password: 'a wrong password for this' });
  const login = `POST /web/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${signIn.length}\r\n\r\n${signIn}`;
  return attack(target, 120, (round) =>
    converse(target, address, (socket) => void socket.write(round % 12 === 0 ? login : ask.repeat(10))),
  );
}
