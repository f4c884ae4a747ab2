// Node's own HTTP server as an HTTP library, for where uWebSockets.js can't be had or isn't wanted; and one connection of it: its requests one after the other, its limits of time, and
// an end that lets the client read what it was sent.

import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createListener, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { HTTP_HEADER_BLOCK_BYTES } from '../../limits.js';
import { LateTicks } from '../../waiting/coarse-timer.js';
import { type Accepting, type LibrarySocket, startAccepting } from '../acceptor.js';
import type { HttpLibrary, Listening, ListenOptions, Wire } from '../wire.js';
import { createReading, createTimeLimit, NodeWire, SendingLimit, type WireConnection } from './wire.js';

/** How often connections are looked at that take too long. */
const LOOK_MS = 500;

export function nodeLibrary(standsInFor: string): HttpLibrary {
  return { name: 'node', title: `node:http (Node ${process.versions.node})`, standsInFor, listen };
}

async function listen({ onRequest, ...options }: ListenOptions): Promise<Listening> {
  const connections = new Map<Duplex, NodeConnection>();
  const server = createParser(connections);
  let accepting: Accepting | null = null;

  function onConnection(socket: Socket): void {
    if (accepting === null || !accepting.opened(() => socket.remoteAddress ?? '')) {
      socket.destroy();
      accepting?.closed();
      return;
    }
    server.emit('connection', socket);
    // Afterwards: Node's own listeners for `resume` and `pause` come first.
    const connection = openConnection(socket, onRequest);
    connections.set(socket, connection);
    socket.once('close', () => {
      connection.gone();
      connections.delete(socket);
      accepting?.closed();
    });
  }

  accepting = await startAccepting({
    ...options,
    listen: (host, port) => openSocket(host, port, onConnection),
    adopt: (descriptor) => onConnection(adopted(descriptor)),
  });
  const late = new LateTicks();
  let dueMs = performance.now() + LOOK_MS;
  const looking = setInterval(() => {
    const nowMs = performance.now();
    const isSkipped = late.isToBeSkipped(nowMs, dueMs);
    dueMs = nowMs + LOOK_MS;
    if (isSkipped) return;
    for (const connection of connections.values()) connection.look(nowMs);
  }, LOOK_MS).unref();
  return {
    accepting,
    problem: null,
    close() {
      clearInterval(looking);
      for (const socket of connections.keys()) socket.destroy();
    },
  };
}

/**
 * It never listens: connections are handed to it. A `net` server can stop accepting and go on later. With Node's HTTP server that would
 * end idle connections and the checks of slow ones. All time limits are therefore ours.
 */
function createParser(connections: ReadonlyMap<Duplex, NodeConnection>): Server {
  const server = createServer({
    maxHeaderSize: HTTP_HEADER_BLOCK_BYTES,
    // Framing is checked in one place, with one answer.
    requireHostHeader: false,
    insecureHTTPParser: false,
    headersTimeout: 0,
    requestTimeout: 0,
    keepAliveTimeout: 0,
  });
  // By default Node drops headers beyond 2,000 without a word.
  server.maxHeadersCount = 0;
  const serve = (expectsContinue: boolean) => (request: IncomingMessage, response: ServerResponse) =>
    connections.get(request.socket)?.take(request, response, expectsContinue);
  server.on('request', serve(false));
  server.on('checkContinue', serve(true));
  // Without a listener Node answers 417 to what it doesn't know; RFC 9110 section 10.1.1 lets us ignore it.
  server.on('checkExpectation', serve(false));
  // Node stops parsing there. Without a listener for `upgrade` that one is a request as any other.
  server.on('connect', (request) => connections.get(request.socket)?.refuse('method'));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    connections.get(socket)?.failed(error.code ?? '');
  });
  return server;
}

/** A client that has sent all may end its side, and gets what is on its way to it. */
function adopted(fd: number): Socket {
  return new Socket({ fd, allowHalfOpen: true, readable: true, writable: true }).setNoDelay(true);
}

/** Null: it could not listen. */
function openSocket(host: string, port: number, onConnection: (socket: Socket) => void): Promise<LibrarySocket | null> {
  const listener = createListener({ allowHalfOpen: true, noDelay: true }, onConnection);
  return new Promise((resolve) => {
    listener.once('error', () => resolve(null));
    listener.listen({ host, port, exclusive: true }, () => {
      resolve({
        port() {
          const address = listener.address();
          return typeof address === 'object' && address !== null ? address.port : 0;
        },
        close: () => listener.close(),
      });
    });
  });
}

export interface NodeConnection {
  /** Serves a request, at once or when those before it have their answers. */
  take(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void;
  /** Ends the connection with an answer of our own to what is no request. */
  refuse(refusal: ParserRefusal): void;
  /** Node's parser or the socket has failed, with this code. */
  failed(code: string): void;
  /** Ends the connection if it takes too long. */
  look(nowMs: number): void;
  gone(): void;
}

/** As many as uWebSockets.js takes. */
const HEADERS_MAX = 98;

interface NodeParts extends WireConnection {
  readonly requests: Pipeline;
}

function openConnection(socket: Socket, onRequest: (wire: Wire) => void): NodeConnection {
  const requests = createPipeline();
  const reading = createReading(socket, {
    isFull: () => requests.isFull,
    bodyState() {
      if (requests.active === null) return 'none';
      return requests.active.request.complete ? 'whole' : 'coming';
    },
  });
  const limit = createTimeLimit();
  const sending = new SendingLimit(socket);
  const parts: NodeParts = { socket, requests, reading, limit, sending };

  // `close` follows.
  socket.on('error', () => socket.destroy());
  // Node's HTTP server does that too, but not for a connection it has given back (CONNECT).
  socket.on('end', () => socket.end());
  // Instead of ending at once, which Node does with what was its last answer.
  socket.destroySoon = () => endSoon(parts);

  function open(waiting: Waiting, expectsContinue: boolean): void {
    if (expectsContinue) waiting.response.writeContinue();
    const wire = openWire(waiting, parts, goOn);
    requests.active = wire;
    limit.stop();
    onRequest(wire);
  }

  /** To the next request, when the one before it has come as a whole and has its answer. */
  function goOn(): void {
    const { active } = requests;
    if (active === null || !active.isSent || reading.isEnding) return;
    const closes = active.closes || requests.isLast;
    if (!closes && !active.request.complete) {
      limit.startRest();
      reading.apply();
      return;
    }
    requests.active = null;
    // After a chunked body also where it was answered before its end: ../wire.ts says why.
    if (closes || 'transfer-encoding' in active.request.headers) {
      endSoon(parts);
      return;
    }
    limit.startHeader();
    const next = requests.next();
    if (next !== undefined) open(next, false);
    reading.apply();
  }

  return {
    take(request, response, expectsContinue) {
      if (reading.isEnding || requests.isLast) return;
      const refusal = refusalOf(request);
      if (refusal !== null) refuse(refusal, parts);
      else if (requests.active === null) open({ request, response }, expectsContinue);
      else {
        requests.add(request, response);
        reading.apply();
      }
    },
    refuse: (refusal) => refuse(refusal, parts),
    failed: (code) => fail(code, parts),
    look(nowMs) {
      if (limit.isOver(nowMs) || sending.isOver(nowMs)) socket.destroy();
    },
    gone: () => abortActive(requests),
  };
}

function endSoon({ reading, limit }: NodeParts): void {
  if (reading.isEnding) return;
  limit.startLinger();
  reading.end();
}

/** `goOn` is called when the request has come as a whole, and when its answer is sent. */
function openWire({ request, response }: Waiting, parts: NodeParts, goOn: () => void): NodeWire {
  const wire = new NodeWire(request, response, parts);
  // The end of the connection tells the client that the body has failed.
  request.on('error', () => undefined);
  request.once('end', goOn);
  response.once('finish', () => {
    wire.isSent = true;
    parts.sending.stop();
    goOn();
  });
  return wire;
}

function refusalOf({ httpVersion, rawHeaders }: IncomingMessage): ParserRefusal | null {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'version';
  return rawHeaders.length > 2 * HEADERS_MAX ? 'headers' : null;
}

function refuse(refusal: ParserRefusal, parts: NodeParts): void {
  const { socket, requests, reading } = parts;
  if (reading.isEnding) return;
  // What comes behind a request that has no answer yet must not be answered before it.
  if (requests.active !== null) {
    requests.isLast = true;
    reading.apply();
    return;
  }
  socket.write(refusalBytes(refusal));
  endSoon(parts);
}

function fail(code: string, parts: NodeParts): void {
  const { socket, requests, reading } = parts;
  if (reading.isEnding) return;
  if (!code.startsWith('HPE_') || code === 'HPE_INVALID_EOF_STATE') {
    socket.destroy();
    return;
  }
  const { active } = requests;
  // Inside of a body: it never becomes whole.
  if (active !== null && !active.request.complete) {
    if (active.response.headersSent) {
      socket.destroy();
      return;
    }
    abortActive(requests);
  }
  refuse(code === 'HPE_HEADER_OVERFLOW' ? 'headers' : 'syntax', parts);
}

function abortActive(requests: Pipeline): void {
  const { active } = requests;
  requests.active = null;
  active?.aborted();
}

const refusals = {
  syntax: [400, 'Bad request', 'The request is not valid HTTP/1.1'],
  method: [400, 'Bad request', 'CONNECT is not served'],
  version: [505, 'HTTP version not supported', 'Expected HTTP/1.1 or HTTP/1.0'],
  headers: [431, 'Request header fields too large', 'Expected at most 16 KB and 98 header fields'],
} as const;

type ParserRefusal = keyof typeof refusals;

/** The whole answer, after which the connection ends. */
function refusalBytes(refusal: ParserRefusal): string {
  const [status, error, message] = refusals[refusal];
  const body = JSON.stringify({ error, message });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `X-Request-Id: ${randomUUID()}`,
    'X-Content-Type-Options: nosniff',
    'Cache-Control: no-store',
    'Connection: close',
    `Date: ${new Date().toUTCString()}`,
    `Content-Length: ${body.length}`,
    '',
    body,
  ].join('\r\n');
}

/** Requests without a body that wait for their turn: as many as fit into a piece that the parser gets at once (wire.ts), and some. */
const WAITING_MAX = 32;

interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface Pipeline {
  active: NodeWire | null;
  /** Nothing that comes behind the active request is served. */
  isLast: boolean;
  /** No further request is to be read. */
  readonly isFull: boolean;
  /** Comes behind the active one. */
  add(request: IncomingMessage, response: ServerResponse): void;
  next(): Waiting | undefined;
}

/** The requests of one connection (RFC 9112 section 9.3): one is active, a few wait for its end, and what comes behind the last one isn't served. */
function createPipeline(): Pipeline {
  const waiting: Waiting[] = [];
  const pipeline: Pipeline = {
    active: null,
    isLast: false,
    get isFull() {
      return waiting.length > 0 || pipeline.isLast;
    },
    add(request, response) {
      // What isn't idempotent must not be sent before the answer (section 9.3.2); nor is there memory for its body. An active request that has
      // its answer was refused early: its last bytes came in one packet with this one, and Node says a tick later that it is whole.
      const hasBody = 'content-length' in request.headers || 'transfer-encoding' in request.headers;
      const isEarly = hasBody && pipeline.active?.isSent !== true;
      if (isEarly || waiting.length >= WAITING_MAX) pipeline.isLast = true;
      else waiting.push({ request, response });
    },
    next: () => waiting.shift(),
  };
  return pipeline;
}
