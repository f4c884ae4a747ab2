// The listening socket of a server: accepting can be put off, and clients then wait in the kernel's queue instead of being refused.
import { closeSync } from 'node:fs';
import { createServer } from 'node:net';
import type { TemplatedApp, us_listen_socket } from 'uws-pack';
import { canShareListener, openListener, takeOver, waitingConnections, whyNot } from './listener.js';

export interface Acceptor {
  readonly port: number;
  /** Connections can be left waiting, and the kernel asked about those that are there. */
  readonly canPause: boolean;
  isPaused(): boolean;
  /** May be called while connections are accepted: the one at hand is the last. */
  pause(): void;
  /** False: it could not be done now. */
  resume(): boolean;
  /** Connections that wait to be accepted. */
  waiting(): number;
  /** For good. */
  close(): void;
}

export interface AcceptorOptions {
  readonly app: TemplatedApp;
  readonly library: {
    us_listen_socket_close(socket: us_listen_socket): void;
    us_socket_local_port(socket: us_listen_socket): number;
  };
  readonly host: string;
  readonly port: number;
  /** A listening socket that this process was given. */
  readonly inherited: number | null;
}

/** Rejects when the address can't be had. */
export async function openAcceptor(options: AcceptorOptions): Promise<Acceptor> {
  const { library, host, port, inherited } = options;
  // The library's own socket would lose with its end what waits in it; ours stays while the library's comes and goes.
  const held = inherited ?? (canShareListener() ? await openListener(host, port) : null);
  if (held === null) await assertFree(host, port);
  let socket = listen(options, held);
  if (socket === null) throw new Error(`Cannot listen on ${host}:${port}`);
  const openPort = library.us_socket_local_port(socket);

  function pause(): void {
    if (socket !== null) library.us_listen_socket_close(socket);
    socket = null;
  }

  return {
    port: openPort,
    canPause: held !== null,
    isPaused: () => socket === null,
    pause,
    resume() {
      socket ??= listen(options, held);
      return socket !== null;
    },
    waiting: () => (held === null ? 0 : waitingConnections(held)),
    close() {
      pause();
      if (held !== null && inherited === null) closeSync(held);
    },
  };
}

/** The library calls back before it returns. Null: it could not listen. */
function listen({ app, library, host, port }: AcceptorOptions, held: number | null): us_listen_socket | null {
  let socket: us_listen_socket | false = false;
  // A held socket needs one of the library's own, to be put in its place before anybody can connect to it.
  const own = held === null ? { host, port } : { host: '127.0.0.1', port: 0 };
  app.listen(own.host, own.port, (listener) => {
    socket = listener;
  });
  const found = narrowed(socket);
  if (found === null || held === null) return found;
  try {
    takeOver(library.us_socket_local_port(found), held);
    return found;
  } catch (error) {
    library.us_listen_socket_close(found);
    throw error;
  }
}

/** The compiler doesn't see what a callback assigns. */
function narrowed(socket: us_listen_socket | false): us_listen_socket | null {
  return socket === false ? null : socket;
}

/**
 * uWebSockets.js listens with SO_REUSEPORT: a second server on the port would take half of the connections in silence.
 * Node's own listener doesn't, so it finds out whether the address is free, and says what is wrong with it.
 */
function assertFree(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', (error) => reject(new Error(`Cannot listen on ${host}:${port}: ${whyNot(error)}`)));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve()));
  });
}
