// Requests through a proxy over TLS: as most clients send them, and as the worst one does, which reads only after it has sent everything.
import { once } from 'node:events';
import { type Agent, request } from 'node:https';
import { connect } from 'node:tls';
import { z } from 'zod';
import { API_KEY } from '../fixtures/server.js';

export interface Gate {
  readonly port: number;
  /** PEM of the authority that has signed its certificate. */
  readonly ca: string;
}

export interface ProxiedAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: unknown;
  /** Of the client's end of the connection. */
  readonly localPort: number | undefined;
}

export interface Sending {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Bytes of the body; null: chunked. */
  readonly length?: number | null;
  readonly agent?: Agent;
  /** Of the loopback range. */
  readonly localAddress?: string;
}

export interface OpenRequest {
  /** Sends so much of the body, and resolves when the kernel has it. */
  send(bytes: Uint8Array): Promise<void>;
  end(): void;
  readonly answer: Promise<ProxiedAnswer>;
}

const BOUNDARY = 'a-boundary';
/** Of uploads with a key. */
export const uploadHeaders = { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}`, 'X-API-KEY': API_KEY };

/** The body of an upload with that content as its file. */
export function formOf(content: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n`),
    content,
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
  ]);
}

/** One request whose body the caller sends: an upload by default. */
export function openRequest(gate: Gate, sending: Sending = {}): OpenRequest {
  const { method = 'POST', path = '/api/v1/scans', headers = uploadHeaders, length = null, agent = false } = sending;
  const outgoing = request({
    host: '127.0.0.1',
    servername: 'localhost',
    port: gate.port,
    ca: gate.ca,
    path,
    method,
    headers: { Host: 'localhost', ...headers, ...(length === null ? {} : { 'Content-Length': String(length) }) },
    agent,
    ...(sending.localAddress === undefined ? {} : { localAddress: sending.localAddress }),
  });
  const answer = new Promise<ProxiedAnswer>((resolve, reject) => {
    outgoing.on('error', reject).on('response', (response) => {
      const { localPort } = response.socket;
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('error', reject).on('end', () => {
        const lines = Object.entries(response.headers).map(([name, value]) => [name, String(value)] as const);
        resolve({ status: response.statusCode ?? 0, headers: new Map(lines), body: parse(text), localPort });
      });
    });
  });
  // The one who waits for the answer sees the failure.
  answer.catch(() => undefined);
  return {
    send: (bytes) => new Promise((resolve) => outgoing.write(bytes, () => resolve())),
    end: () => void outgoing.end(),
    answer,
  };
}

/** A request with a whole body. */
export function send(gate: Gate, body: Uint8Array, sending: Sending = {}): Promise<ProxiedAnswer> {
  const opened = openRequest(gate, { length: body.length, ...sending });
  if (body.length > 0) void opened.send(body);
  opened.end();
  return opened.answer;
}

/** An upload; `isChunked`: in pieces, without a length. */
export async function upload(gate: Gate, content: Uint8Array, isChunked = false): Promise<ProxiedAnswer> {
  return await send(gate, formOf(content), isChunked ? { length: null } : {});
}

/** The address that the service has of a client that signs in from there and claims to be another one. */
export async function addressOf(gate: Gate, localAddress: string, claimed: string, login: object): Promise<string> {
  const headers = { 'X-Forwarded-For': claimed, 'Content-Type': 'application/json' };
  const body = Buffer.from(JSON.stringify(login));
  const signedIn = await send(gate, body, { path: '/web/auth/login', headers, localAddress });
  const { accessToken } = z.object({ accessToken: z.string() }).parse(signedIn.body);
  const sessions = await send(gate, Buffer.alloc(0), {
    method: 'GET',
    path: '/web/users/me/sessions',
    headers: { Authorization: `Bearer ${accessToken}` },
  });
  const listed = z.array(z.object({ ipAddress: z.string(), current: z.boolean() })).parse(sessions.body);
  return listed.find(({ current }) => current)?.ipAddress ?? '';
}

/** Reads nothing before everything is sent; null: the connection ended without an answer that can be read. */
export async function uploadThenRead(
  gate: Gate,
  content: Uint8Array,
  headers: Readonly<Record<string, string>>,
): Promise<string | null> {
  const body = formOf(content);
  const lines = Object.entries({ Host: 'localhost', 'Content-Length': String(body.length), ...headers });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const socket = connect({ port: gate.port, host: '127.0.0.1', servername: 'localhost', ca: gate.ca });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => undefined);
  socket.pause();
  await once(socket, 'secureConnect');
  const bytes = Buffer.concat([Buffer.from(`POST /api/v1/scans HTTP/1.1\r\n${head}\r\n`), body]);
  const written = new Promise<void>((resolve) => void socket.write(bytes, () => resolve()));
  await Promise.race([closed, written]);
  let text = '';
  socket.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    // Errors are one flat object each; what is behind it is the end of the last chunk.
    if (/\r\n\r\n.*\}(\s|$)/s.test(text)) socket.destroy();
  });
  socket.resume();
  await closed;
  return text === '' ? null : text;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // What a proxy says by itself may be a page.
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
