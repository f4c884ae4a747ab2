// The listening socket of a server: accepting can be put off, and clients then wait in the kernel's queue instead of being refused.
import { closeSync } from 'node:fs';
import { createServer } from 'node:net';
import { canShareListener, openListener, takeOver, waitingConnections, whyNot } from './listener.js';

export interface Acceptor {
  readonly port: number;
  /** Connections can be left waiting, and the kernel asked about those that are there. */
  readonly canPause: boolean;
  isPaused(): boolean;
  /** May be called while connections are accepted: the one at hand is the last. */
  pause(): void;
  /** It stays paused where it can't be done now. */
  resume(): Promise<void>;
  /** Connections that wait to be accepted. */
  waiting(): number;
  /** For good. */
  close(): void;
}

/** A listening socket of the library's own. */
export interface LibrarySocket {
  /** As the kernel says it now. */
  port(): number;
  close(): void;
}

export interface AcceptorOptions {
  /** Resolves before the event loop has polled the socket; to null when it could not listen. */
  readonly listen: (host: string, port: number) => Promise<LibrarySocket | null>;
  readonly host: string;
  readonly port: number;
  /** A listening socket that this process was given. */
  readonly inherited: number | null;
}

/** Rejects when the address can't be had. */
export async function openAcceptor(options: AcceptorOptions): Promise<Acceptor> {
  const { host, port, inherited } = options;
  // The library's own socket would lose with its end what waits in it; ours stays while the library's comes and goes.
  const held = inherited ?? (canShareListener() ? await openListener(host, port) : null);
  if (held === null) await assertFree(host, port);
  let socket = await listen(options, held);
  if (socket === null) throw new Error(`Cannot listen on ${host}:${port}`);
  const openPort = socket.port();
  let isClosed = false;

  function pause(): void {
    socket?.close();
    socket = null;
  }

  return {
    port: openPort,
    canPause: held !== null,
    isPaused: () => socket === null,
    pause,
    async resume() {
      if (socket !== null) return;
      const opened = await listen(options, held);
      if (isClosed) opened?.close();
      else socket = opened;
    },
    waiting: () => (held === null ? 0 : waitingConnections(held)),
    close() {
      isClosed = true;
      pause();
      if (held !== null && inherited === null) closeSync(held);
    },
  };
}

/** A held socket needs one of the library's own, to be put in its place before anybody can connect to it. */
async function listen(
  { listen: open, host, port }: AcceptorOptions,
  held: number | null,
): Promise<LibrarySocket | null> {
  if (held === null) return await open(host, port);
  const socket = await open('127.0.0.1', 0);
  if (socket === null) return null;
  try {
    takeOver(socket.port(), held);
    return socket;
  } catch (error) {
    socket.close();
    throw error;
  }
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
