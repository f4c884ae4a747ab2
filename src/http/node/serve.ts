// Node's own HTTP server as an HTTP library, for where uWebSockets.js can't be had or isn't wanted.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createListener, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { HTTP_HEADER_BLOCK_BYTES } from '../../limits.js';
import { LateTicks } from '../../waiting/coarse-timer.js';
import type { LibrarySocket } from '../acceptor.js';
import { type Accepting, startAccepting } from '../acceptor.js';
import type { HttpLibrary, Listening, ListenOptions } from '../wire.js';
import { type Connection, openConnection } from './connection.js';

/** How often connections are looked at that take too long. */
const LOOK_MS = 500;

export function nodeLibrary(standsInFor: string): HttpLibrary {
  return { name: 'node', title: `node:http (Node ${process.versions.node})`, standsInFor, listen };
}

async function listen({ onRequest, ...options }: ListenOptions): Promise<Listening> {
  const connections = new Map<Duplex, Connection>();
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
  const late = new LateTicks(LOOK_MS);
  const looking = setInterval(() => {
    const nowMs = performance.now();
    if (late.isToBeSkipped(nowMs)) return;
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
function createParser(connections: ReadonlyMap<Duplex, Connection>): Server {
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
