// Sockets of Node's own for protocols beside HTTP: who may connect, a place that is tried until it can be had, and the connections that are open.
import { once } from 'node:events';
import { BlockList, isIPv6, type ListenOptions, type Server, type Socket } from 'node:net';
import { messageOfError } from './error-text.js';

const LOOPBACK = '127.0.0.1';
/** A process that is replaced has the place until it has ended: a client that is refused meanwhile comes again. */
const RETRY_MS = 100;
/** After as many tries it is no replacement of a process that is waited for. */
const TRIES = 100;
const LATER_MS = 2_000;

export interface ListeningHooks {
  readonly onListening: (place: string) => void;
  /** Called once for a place that can't be had; it is tried again until it can. */
  readonly onTaken: (place: string, reason: string) => void;
}

/** A place to listen at. */
export type Where = ListenOptions & {
  /** The umask while it is bound. */
  readonly mask?: number;
  readonly prepare?: () => Promise<void>;
  readonly done?: () => void;
};

export interface Place {
  listen(): void;
  close(): void;
}

/** Without networks the port is the loopback's alone. */
export function portFor(port: number, networks: readonly string[]): Where {
  return { port, exclusive: true, ...(networks.length === 0 ? { host: LOOPBACK } : {}) };
}

/** The machine itself may connect, and whom the networks name, in CIDR notation. An IPv4 address counts as one also where it came by a socket of IPv6. */
export function peersOf(networks: readonly string[]): (socket: Socket) => boolean {
  const list = new BlockList();
  for (const network of ['127.0.0.0/8', '::1/128', ...networks]) {
    const [address = '', bits = ''] = network.split('/');
    list.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return ({ remoteAddress = '' }) => list.check(remoteAddress, isIPv6(remoteAddress) ? 'ipv6' : 'ipv4');
}

export function placeOf(
  server: Server,
  { mask, prepare, done, ...where }: Where,
  { onListening, onTaken }: ListeningHooks,
): Place {
  const name = where.path ?? `${where.host ?? '*'}:${where.port}`;
  let isClosed = false;
  let isTold = false;
  let tries = 0;
  let retry: NodeJS.Timeout | null = null;
  // What the place can't be had for is heard where it is tried; an accept that fails is the client's to try again.
  server.on('error', () => undefined);

  function failed(error: unknown): void {
    if (isClosed) return;
    if (!isTold) onTaken(name, messageOfError(error));
    isTold = true;
    tries += 1;
    if (server.listening) server.close();
    retry = setTimeout(() => void tryOnce(), tries < TRIES ? RETRY_MS : LATER_MS);
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
      tries = 0;
      onListening(name);
    } catch (error) {
      failed(error);
    }
  }

  return {
    listen: () => void tryOnce(),
    close() {
      if (isClosed) return;
      isClosed = true;
      if (retry !== null) clearTimeout(retry);
      server.close();
    },
  };
}

export interface Connected {
  /** Takes nothing new, and ends when what it has is answered. */
  finish(): void;
  destroy(): void;
}

/** Those of one protocol. */
export class OpenConnections {
  readonly #open = new Set<Connected>();
  #whenEmpty: (() => void) | null = null;

  get size(): number {
    return this.#open.size;
  }

  add(connection: Connected, socket: Socket): void {
    this.#open.add(connection);
    socket.on('close', () => {
      this.#open.delete(connection);
      if (this.#open.size === 0) this.#whenEmpty?.();
    });
  }

  /** Resolves when all have ended; those that have not after the grace are cut off. */
  async end(graceMs: number): Promise<void> {
    if (this.#open.size === 0) return;
    const empty = new Promise<void>((resolve) => {
      this.#whenEmpty = resolve;
    });
    for (const connection of this.#open) connection.finish();
    const timer = setTimeout(() => {
      for (const connection of this.#open) connection.destroy();
    }, graceMs);
    await empty;
    clearTimeout(timer);
  }
}
