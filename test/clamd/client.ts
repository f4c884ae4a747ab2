// What the tests of clamd's protocol send, and how they ask; and a server of ours that speaks it.
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createConnection, type NetConnectOpts, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { freePort } from '../fixtures/free-port.js';
import { type ServerSettings, startServer } from '../fixtures/server.js';

export const EICAR = Buffer.from('X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*');
export const CLEAN = Buffer.from('hello');
export const EMAIL = 'files@example.org';
/** The chunk of no bytes, which ends a stream. */
export const END = Buffer.alloc(4);

/** A question that has no end by then has none at all: it rejects, and doesn't wait for the end of the test. */
const ANSWER_MS = 60_000;

export function chunk(content: Buffer): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(content.length);
  return Buffer.concat([size, content]);
}

export function stream(content: Buffer, piece = content.length): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < content.length; at += piece) parts.push(chunk(content.subarray(at, at + piece)));
  return Buffer.concat([...parts, END]);
}

export function bytesOf(...parts: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)));
}

/** A connection that is open, and all that has been answered on it. */
export interface Talk {
  readonly socket: Socket;
  answer(): string;
  /** Resolves with all of it when the other side has ended it, however. */
  readonly whole: Promise<string>;
}

/** It is ended with the test: a half-open one keeps its process, when the other side has long gone. */
export async function talk(t: Pick<Test, 'teardown'>, to: NetConnectOpts): Promise<Talk> {
  const spoken = await talkTo(to);
  t.teardown(() => spoken.socket.destroy());
  return spoken;
}

async function talkTo(to: NetConnectOpts): Promise<Talk> {
  const socket = createConnection({ ...to, allowHalfOpen: true });
  let answer = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    answer += text;
  });
  await once(socket, 'connect');
  // The other side may be done before it has read everything.
  socket.on('error', () => undefined);
  const whole = new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`No end within ${ANSWER_MS} ms; so far: ${JSON.stringify(answer)}`));
    }, ANSWER_MS);
    const over = (): void => {
      clearTimeout(timer);
      resolve(answer);
    };
    socket.once('end', over).once('close', over);
  });
  // It may be that nobody waits for it.
  whole.catch(() => undefined);
  return { socket, answer: () => answer, whole };
}

export interface AskOptions {
  /** Bytes go out in pieces of so many. */
  readonly piece?: number;
  /** The client says that it sends nothing more. */
  readonly ends?: boolean;
  readonly patienceMs?: number;
}

/** All that is answered until the other side ends it, or until there is no more patience. */
export async function ask(
  to: NetConnectOpts,
  bytes: Buffer,
  { piece = bytes.length, ends = false, patienceMs = Number.POSITIVE_INFINITY }: AskOptions = {},
): Promise<string> {
  const { socket, whole } = await talkTo(to);
  const timer = patienceMs < ANSWER_MS ? setTimeout(() => socket.destroy(), patienceMs) : undefined;
  for (let at = 0; at < bytes.length && !socket.destroyed; at += piece) {
    socket.write(bytes.subarray(at, at + piece));
    if (piece < bytes.length) await new Promise((resolve) => setImmediate(resolve));
  }
  if (ends) socket.end();
  try {
    return await whole;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/** Answers of a session come as they are ready. */
export function sorted(answer: string): string {
  return answer
    .split(/[\n\0]/)
    .toSorted()
    .join('|');
}

export function socketPlace(): string {
  return join(mkdtempSync(join(tmpdir(), 'sluice-socket-')), 'clamd.sock');
}

/** `path`: where its socket is to be; whether it is, is waited for. */
export async function startOurs(
  env: Readonly<Record<string, string>> = {},
  settings: Omit<ServerSettings, 'env'> & { readonly path?: string } = {},
) {
  const { path = socketPlace(), ...rest } = settings;
  const port = await freePort();
  const server = await startServer({
    ...rest,
    env: {
      SIGNATURES_DIR: ownSignaturesDirectory,
      CLAMD_SOCKET: path,
      CLAMD_PORT: String(port),
      CLAMD_ACCOUNT: EMAIL,
      BOOTSTRAP_EMAIL: EMAIL,
      ...env,
    },
  });
  return { server, unix: { path }, tcp: { port, host: '127.0.0.1' } };
}
