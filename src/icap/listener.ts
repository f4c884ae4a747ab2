// The port of ICAP.
import { createServer } from 'node:net';
import { type ListeningHooks, OpenConnections, peersOf, placeOf, portFor } from '../listening.js';
import { Connection, type ConnectionParts } from './connection.js';

export interface IcapListenerOptions extends ListeningHooks {
  readonly port: number;
  /** In CIDR notation, beside the machine itself; with none, only the loopback is listened on. */
  readonly allowNetworks: readonly string[];
  /** The next one is closed at once. */
  readonly connections: number;
}

export interface IcapListener {
  /** Begins to listen without a wait for it: a process that is replaced leaves its place within a moment. */
  listen(): void;
  stopListening(): void;
  /** What runs is answered, within so long; nothing else is waited for. */
  stop(graceMs: number): Promise<void>;
}

export function createIcapListener(options: IcapListenerOptions, parts: ConnectionParts): IcapListener {
  const { port, allowNetworks } = options;
  const mayConnect = peersOf(allowNetworks);
  const open = new OpenConnections();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    if (open.size >= options.connections || !mayConnect(socket)) socket.destroy();
    else open.add(new Connection(parts, socket), socket);
  });
  const place = placeOf(server, portFor(port, allowNetworks), options);
  return {
    listen: place.listen,
    stopListening: place.close,
    async stop(graceMs) {
      place.close();
      await open.end(graceMs);
    },
  };
}
