// The sockets of clamd's protocol: a UNIX socket, a port of the loopback, or both; their connections, and how these end.
import { once } from 'node:events';
import { chmodSync, lstatSync, unlinkSync } from 'node:fs';
import { createConnection, createServer, type ListenOptions, type Server } from 'node:net';
import { messageOfError } from '../error-text.js';
import { CLAMD_CONNECTIONS } from '../limits.js';
import { Connection, type ConnectionParts, type Way } from './connection.js';

export interface ClamdListenerOptions {
  /** Null: there is none. */
  readonly socketPath: string | null;
  /** Of the UNIX socket. */
  readonly socketMode: number;
  /** Null: there is none. */
  readonly port: number | null;
  readonly onListening: (place: string) => void;
  /** Called once for a place that can't be had; it is tried again until it can. */
  readonly onTaken: (place: string, reason: string) => void;
}

export interface ClamdListener {
  /** Begins to listen without a wait for it: a process that is replaced leaves its place within a moment. */
  listen(): void;
  stopListening(): void;
  /** Connections that are open. */
  readonly connections: number;
  /** What runs is answered, within so long; nothing else is waited for. */
  stop(graceMs: number): Promise<void>;
}

const LOOPBACK = '127.0.0.1';
/** Between two tries: a client that is refused meanwhile comes again. */
const RETRY_MS = 100;

export function createClamdListener(options: ClamdListenerOptions, parts: ConnectionParts): ClamdListener {
  const { socketPath, socketMode, port } = options;
  const open = new Set<Connection>();
  const places: Place[] = [];
  let whenEmpty: (() => void) | null = null;

  function serve(way: Way): Server {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
      if (open.size >= CLAMD_CONNECTIONS) {
        socket.destroy();
        return;
      }
      const connection = new Connection(parts, socket, way);
      open.add(connection);
      socket.on('close', () => {
        open.delete(connection);
        if (open.size === 0) whenEmpty?.();
      });
    });
    // What a place can't be had for is heard where it is tried; an accept that fails is the client's to try again.
    server.on('error', () => undefined);
    return server;
  }

  return {
    listen() {
      if (socketPath !== null) {
        // It has its mode from its first moment on.
        const prepare = (): Promise<void> => removeDeadSocket(socketPath);
        const done = (): void => chmodSync(socketPath, socketMode);
        places.push(
          keepListening(serve('unix'), { path: socketPath, mask: 0o777 & ~socketMode, prepare, done }, options),
        );
      }
      if (port !== null) places.push(keepListening(serve('tcp'), { port, host: LOOPBACK, exclusive: true }, options));
    },
    stopListening() {
      for (const place of places) place.close();
    },
    get connections() {
      return open.size;
    },
    async stop(graceMs) {
      for (const place of places) place.close();
      if (open.size === 0) return;
      const empty = new Promise<void>((resolve) => {
        whenEmpty = resolve;
      });
      for (const connection of open) connection.finish();
      const timer = setTimeout(() => {
        for (const connection of open) connection.destroy();
      }, graceMs);
      await empty;
      clearTimeout(timer);
    },
  };
}

interface Place {
  close(): void;
}

type Where = ListenOptions & {
  /** The umask while it is bound. */
  readonly mask?: number;
  readonly prepare?: () => Promise<void>;
  readonly done?: () => void;
};

function keepListening(
  server: Server,
  { mask, prepare, done, ...where }: Where,
  { onListening, onTaken }: Pick<ClamdListenerOptions, 'onListening' | 'onTaken'>,
): Place {
  const name = where.path ?? `${where.host}:${where.port}`;
  let isClosed = false;
  let isTold = false;
  let retry: NodeJS.Timeout | null = null;

  function failed(error: unknown): void {
    if (isClosed) return;
    if (!isTold) onTaken(name, messageOfError(error));
    isTold = true;
    retry = setTimeout(() => void tryOnce(), RETRY_MS);
  }

  async function tryOnce(): Promise<void> {
    try {
      await prepare?.();
      if (isClosed) return;
      const before = mask === undefined ? null : process.umask(mask);
      server.listen(where);
      if (before !== null) process.umask(before);
      await once(server, 'listening');
      done?.();
      onListening(name);
    } catch (error) {
      failed(error);
    }
  }

  void tryOnce();
  return {
    close() {
      if (isClosed) return;
      isClosed = true;
      if (retry !== null) clearTimeout(retry);
      server.close();
    },
  };
}

/** Of a process that was killed. Rejects when it is anything else, or somebody listens there. */
async function removeDeadSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error('there is something else than a socket');
  const isServed = await new Promise<boolean>((resolve) => {
    const socket = createConnection(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error) => resolve(!('code' in error && error.code === 'ECONNREFUSED')));
  });
  if (isServed) throw new Error('another process listens there');
  unlinkSync(path);
}
