// What the tests of ICAP send, and how they read the answers; and a server of ours that speaks it.
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { freePort } from '../fixtures/free-port.js';
import { type ServerSettings, startServer } from '../fixtures/server.js';

export const EICAR = Buffer.from('X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*');
export const CLEAN = Buffer.from('hello, world');
export const EMAIL = 'proxy@example.org';
export const CONTINUE = 'ICAP/1.0 100 Continue\r\n\r\n';

/** An answer that hasn't come by then has none: it rejects. */
const ANSWER_MS = 60_000;

export interface Asked {
  readonly method?: 'OPTIONS' | 'REQMOD' | 'RESPMOD';
  readonly service?: string;
  readonly headers?: readonly string[];
  /** Of the HTTP response or request; null: none is sent. */
  readonly http?: string | null;
  /** Null: null-body. */
  readonly body?: Buffer | null;
  /** Null: without. */
  readonly preview?: number | null;
  /** Bytes of a chunk. */
  readonly piece?: number;
}

const GET = 'GET http://example.org/files/report.bin HTTP/1.1\r\nHost: example.org\r\n\r\n';

export function chunks(body: Buffer, piece = 4096): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += piece) {
    const part = body.subarray(at, at + piece);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}

/** A request up to its end, or to the end of its preview; and what is to follow 100 Continue. */
export function request(asked: Asked): { readonly bytes: Buffer; readonly rest: Buffer } {
  const { method = 'RESPMOD', service = 'avscan', headers = [], body = null, preview = null, piece } = asked;
  const httpHeader =
    asked.http === undefined
      ? `HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n${body === null ? '' : `Content-Length: ${body.length}\r\n`}\r\n`
      : asked.http;
  const sections: string[] = [];
  let encapsulated = '';
  const add = (name: string, text: string): void => {
    sections.push(`${name}=${Buffer.byteLength(encapsulated)}`);
    encapsulated += text;
  };
  if (method === 'RESPMOD') add('req-hdr', GET);
  if (method !== 'OPTIONS' && httpHeader !== null) add(method === 'RESPMOD' ? 'res-hdr' : 'req-hdr', httpHeader);
  add(body === null ? 'null-body' : method === 'RESPMOD' ? 'res-body' : 'req-body', '');
  const head = [
    `${method} icap://127.0.0.1/${service} ICAP/1.0`,
    'Host: 127.0.0.1',
    ...(preview === null ? [] : [`Preview: ${preview}`]),
    ...headers,
    ...(method === 'OPTIONS' ? [] : [`Encapsulated: ${sections.join(', ')}`]),
    `\r\n${encapsulated}`,
  ].join('\r\n');
  if (body === null) return { bytes: Buffer.from(head), rest: Buffer.alloc(0) };
  if (preview === null) {
    return { bytes: Buffer.concat([Buffer.from(head), chunks(body, piece), END]), rest: Buffer.alloc(0) };
  }
  const isWhole = body.length <= preview;
  const end = Buffer.from(isWhole ? '0; ieof\r\n\r\n' : '0\r\n\r\n');
  const bytes = Buffer.concat([Buffer.from(head), chunks(body.subarray(0, preview), piece), end]);
  return { bytes, rest: isWhole ? Buffer.alloc(0) : Buffer.concat([chunks(body.subarray(preview), piece), END]) };
}

const END = Buffer.from('0\r\n\r\n');

export interface Answered {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** The HTTP headers that came with it. */
  readonly http: string;
  readonly body: Buffer | null;
  /** A 100 Continue came before it. */
  readonly isContinued: boolean;
}

/** A connection whose answers are read one after the other. */
export interface Client {
  readonly socket: Socket;
  write(bytes: Buffer | string): void;
  /** Resolves with the next answer. Rejects when the connection ends before it. */
  answer(): Promise<Answered>;
  ask(asked: Asked, piece?: number): Promise<Answered>;
  /** Resolves when the other side has ended it. */
  readonly ended: Promise<void>;
  end(): void;
}

export async function connect(port: number, host = '127.0.0.1'): Promise<Client> {
  const socket = createConnection({ port, host, allowHalfOpen: true });
  await once(socket, 'connect');
  let received = Buffer.alloc(0);
  let isEnded = false;
  let changed: () => void = () => undefined;
  socket.on('data', (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    changed();
  });
  socket.on('error', () => undefined);
  const ended = new Promise<void>((resolve) => {
    const over = (): void => {
      isEnded = true;
      changed();
      resolve();
    };
    socket.once('end', over).once('close', over);
  });
  async function more(): Promise<void> {
    if (isEnded) throw new Error(`The connection has ended; so far: ${received.toString('latin1').slice(0, 500)}`);
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve, reject) => {
      changed = resolve;
      timer = setTimeout(() => reject(new Error(`No answer; so far: ${received.toString('latin1')}`)), ANSWER_MS);
    });
    clearTimeout(timer);
  }
  async function take(until: (bytes: Buffer) => number): Promise<Buffer> {
    for (;;) {
      const end = until(received);
      if (end >= 0) {
        const taken = received.subarray(0, end);
        received = received.subarray(end);
        return taken;
      }
      await more();
    }
  }
  const block = async (): Promise<string> =>
    (await take((bytes) => (bytes.includes('\r\n\r\n') ? bytes.indexOf('\r\n\r\n') + 4 : -1))).toString('latin1');
  const line = async (): Promise<string> =>
    (await take((bytes) => (bytes.includes('\r\n') ? bytes.indexOf('\r\n') + 2 : -1))).toString('latin1').trimEnd();
  async function body(): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (;;) {
      const size = Number.parseInt(await line(), 16);
      const part = await take((bytes) => (bytes.length >= size + 2 ? size + 2 : -1));
      if (size === 0) return Buffer.concat(parts);
      parts.push(part.subarray(0, -2));
    }
  }
  const client: Client = {
    socket,
    ended,
    write: (bytes) => void socket.write(bytes),
    async answer() {
      const head = await block();
      const [first = '', ...lines] = head.trimEnd().split(/\r\n(?!\t)/);
      const status = Number(first.split(' ')[1]);
      if (status === 100) return { ...(await client.answer()), isContinued: true };
      const headers = new Map(
        lines.map((each): [string, string] => {
          const colon = each.indexOf(':');
          return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()];
        }),
      );
      const encapsulated = headers.get('encapsulated') ?? '';
      const [, name = '', size = '0'] = /(null-body|req-body|res-body)=(\d+)$/.exec(encapsulated) ?? [];
      const http = (await take((bytes) => (bytes.length >= Number(size) ? Number(size) : -1))).toString('latin1');
      return { status, headers, http, body: name === 'null-body' ? null : await body(), isContinued: false };
    },
    async ask(asked, piece = Number.MAX_SAFE_INTEGER) {
      const { bytes, rest } = request(asked);
      const send = async (all: Buffer): Promise<void> => {
        for (let at = 0; at < all.length; at += piece) {
          socket.write(all.subarray(at, at + piece));
          if (piece < all.length) await new Promise((resolve) => setImmediate(resolve));
        }
      };
      await send(bytes);
      if (rest.length === 0) return await client.answer();
      for (;;) {
        if (received.toString('latin1').startsWith(CONTINUE)) break;
        if (/^ICAP\/1\.0 (?!100)\d/.test(received.toString('latin1'))) return await client.answer();
        await more();
      }
      await send(rest);
      return await client.answer();
    },
    end: () => socket.destroy(),
  };
  return client;
}

/** Rejects when it doesn't start; resolves when the port of ICAP can be connected to. */
export async function startOurs(env: Readonly<Record<string, string>> = {}, settings: ServerSettings = {}) {
  const port = await freePort();
  const server = await startServer({
    ...settings,
    env: {
      SIGNATURES_DIR: ownSignaturesDirectory,
      ICAP_PORT: String(port),
      ICAP_ACCOUNT: EMAIL,
      BOOTSTRAP_EMAIL: EMAIL,
      ...env,
    },
  });
  return { server, port };
}
