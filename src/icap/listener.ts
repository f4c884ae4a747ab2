// The port of ICAP: who may connect, the connections that are open, and how they end.
import { once } from 'node:events';
import { BlockList, createServer, isIPv6, type Server, type Socket } from 'node:net';
import { messageOfError } from '../error-text.js';
import { ICAP_CONNECTIONS } from '../limits.js';
import { Connection, type ConnectionParts } from './connection.js';

export interface IcapListenerOptions {
  readonly port: number;
  /** In CIDR notation, beside the machine itself; with none, only the loopback is listened on. */
  readonly allowNetworks: readonly string[];
  readonly onListening: (place: string) => void;
  /** Called once while the port can't be had; it is tried again until it can. */
  readonly onTaken: (place: string, reason: string) => void;
}

export interface IcapListener {
  /** Begins to listen without a wait for it: a process that is replaced leaves its place within a moment. */
  listen(): void;
  stopListening(): void;
  /** What runs is answered, within so long; nothing else is waited for. */
  stop(graceMs: number): Promise<void>;
}

const LOOPBACK = '127.0.0.1';
const EVERYWHERE = '0.0.0.0';
/** Between two tries: a client that is refused meanwhile comes again. */
const RETRY_MS = 100;

export function createIcapListener(options: IcapListenerOptions, parts: ConnectionParts): IcapListener {
  const open = new Set<Connection>();
  const mayConnect = peerCheck(options.allowNetworks);
  let whenEmpty: (() => void) | null = null;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    if (open.size >= ICAP_CONNECTIONS || !mayConnect(socket)) {
      socket.destroy();
      return;
    }
    const connection = new Connection(parts, socket);
    open.add(connection);
    socket.on('close', () => {
      open.delete(connection);
      if (open.size === 0) whenEmpty?.();
    });
  });
  // What the port can't be had for is heard where it is tried; an accept that fails is the client's to try again.
  server.on('error', () => undefined);
  const place = keepListening(server, options);
  return {
    listen: place.listen,
    stopListening: place.close,
    async stop(graceMs) {
      place.close();
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

function peerCheck(networks: readonly string[]): (socket: Socket) => boolean {
  const allowed = new BlockList();
  for (const network of ['127.0.0.0/8', ...networks]) {
    const [address = '', prefix = ''] = network.split('/');
    allowed.addSubnet(address, Number(prefix), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return ({ remoteAddress: address }) =>
    address !== undefined && allowed.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

function keepListening(server: Server, { port, allowNetworks, onListening, onTaken }: IcapListenerOptions) {
  const host = hostFor(allowNetworks);
  const name = `${isIPv6(host) ? `[${host}]` : host}:${port}`;
  let isClosed = false;
  let isTold = false;
  let retry: NodeJS.Timeout | null = null;

  async function tryOnce(): Promise<void> {
    try {
      server.listen({ port, host, exclusive: true });
      await once(server, 'listening');
      onListening(name);
    } catch (error) {
      if (isClosed) return;
      if (!isTold) onTaken(name, messageOfError(error));
      isTold = true;
      retry = setTimeout(() => void tryOnce(), RETRY_MS);
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

function hostFor(networks: readonly string[]): string {
  if (networks.length === 0) return LOOPBACK;
  return networks.some((network) => isIPv6(network.split('/', 1)[0] ?? '')) ? '::' : EVERYWHERE;
}
