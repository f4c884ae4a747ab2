// What listens for a protocol beside HTTP: on sockets that were opened before, for those who may connect, as long as there is room.
import { BlockList, createServer, isIPv6, type Socket } from 'node:net';
import { endsWithin } from './waiting/within.js';

/** By what way a client has come. */
export type Way = 'unix' | 'tcp';

export interface ListenerOptions {
  /** Listening sockets. Other processes may accept from them as well, and they stay open when this one doesn't any more. */
  readonly sockets: readonly { readonly way: Way; readonly descriptor: number }[];
  /** Who may connect to a port beside the machine itself, in CIDR notation. */
  readonly networks: readonly string[];
  /** The next one is closed at once. */
  readonly connections: number;
  readonly onListening: () => void;
  /** The socket is paused. */
  readonly open: (socket: Socket, way: Way) => Connected;
}

export interface Listener {
  listen(): void;
  stopListening(): void;
  /** After `stopListening`, when another process takes new connections. Resolves when those that are left have ended, or after so long. */
  drain(limitMs: number): Promise<void>;
  /** What runs is answered, within so long; nothing else is waited for. */
  stop(graceMs: number): Promise<void>;
}

/** As the socket was opened with: what waits there is not cut down by a process that takes it over. */
const BACKLOG = 4096;

export function createListener({ sockets, networks, connections, onListening, open }: ListenerOptions): Listener {
  const mayConnect = peersOf(networks);
  const kept = new OpenConnections();
  const places = sockets.map(({ way, descriptor }) => {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
      const isStranger = way === 'tcp' && !mayConnect(socket);
      if (isStranger || kept.size >= connections) socket.destroy();
      else kept.add(open(socket, way), socket);
    });
    // An accept that fails is the client's to try again.
    server.on('error', () => undefined);
    return { server, descriptor };
  });

  function stopListening(): void {
    for (const { server } of places) server.close();
  }

  return {
    listen() {
      for (const { server, descriptor } of places) server.listen({ fd: descriptor, backlog: BACKLOG });
      onListening();
    },
    stopListening,
    drain: (limitMs) => kept.drain(limitMs),
    async stop(graceMs) {
      stopListening();
      await kept.end(graceMs);
    },
  };
}

/** The machine itself may connect, and whom the networks name, in CIDR notation. An IPv4 address counts as one also where it came by a socket of IPv6. */
function peersOf(networks: readonly string[]): (socket: Socket) => boolean {
  const list = new BlockList();
  for (const network of ['127.0.0.0/8', '::1/128', ...networks]) {
    const [address = '', bits = ''] = network.split('/');
    list.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return ({ remoteAddress = '' }) => list.check(remoteAddress, isIPv6(remoteAddress) ? 'ipv6' : 'ipv4');
}

export interface Connected {
  /** Another process takes new connections: it ends soon, at a moment at which its client expects that. */
  retire(): void;
  /** Takes nothing new, and ends when what it has is answered. */
  finish(): void;
  destroy(): void;
}

/** Those of one protocol. */
class OpenConnections {
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

  /** Resolves when all have ended, or after so long. */
  async drain(limitMs: number): Promise<void> {
    for (const connection of this.#open) connection.retire();
    await endsWithin(this.#empty(), limitMs);
  }

  /** Resolves when all have ended; those that have not after the grace are cut off. */
  async end(graceMs: number): Promise<void> {
    const empty = this.#empty();
    for (const connection of this.#open) connection.finish();
    const timer = setTimeout(() => {
      for (const connection of this.#open) connection.destroy();
    }, graceMs);
    await empty;
    clearTimeout(timer);
  }

  async #empty(): Promise<void> {
    if (this.#open.size === 0) return;
    await new Promise<void>((resolve) => {
      const before = this.#whenEmpty;
      this.#whenEmpty = () => {
        before?.();
        resolve();
      };
    });
  }
}
