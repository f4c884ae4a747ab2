// What listens for a protocol beside HTTP: on sockets that were opened before, for those who may connect, as long as there is room.
import { BlockList, isIPv6 } from 'node:net';
import { type ListeningSocket, type Peer, type PeerOwner, Peers } from './peers.js';
import type { Share } from './shares.js';
import { endsWithin } from './waiting/within.js';

export interface ListenerOptions {
  /** Other processes may accept from them as well. This one closes its descriptors when it doesn't any more. */
  readonly sockets: readonly ListeningSocket[];
  /** Among the processes on these sockets; null: there are no others. */
  readonly share: Share | null;
  /** Who may connect to a port beside the machine itself, in CIDR notation. */
  readonly networks: readonly string[];
  /** The next one is closed at once. */
  readonly connections: number;
  readonly onListening: () => void;
  /** The connection is paused. */
  readonly open: (peer: Peer) => PeerOwner;
}

export interface Listener {
  listen(): void;
  stopListening(): void;
  /** After `stopListening`, when another process takes new connections. Resolves when those that are left have ended, or after so long. */
  drain(limitMs: number): Promise<void>;
  /** What runs is answered, within so long; nothing else is waited for. */
  stop(graceMs: number): Promise<void>;
}

export function createListener({
  sockets,
  share,
  networks,
  connections,
  onListening,
  open,
}: ListenerOptions): Listener {
  const mayConnect = peersOf(networks);
  const peers = new Peers((peer) => (peers.size > connections || !mayConnect(peer) ? null : open(peer)), share);
  return {
    listen() {
      for (const socket of sockets) peers.listen(socket);
      onListening();
    },
    stopListening: () => peers.stopListening(),
    async drain(limitMs) {
      for (const connection of peers.owners()) connection.retire();
      await endsWithin(peers.empty(), limitMs);
    },
    async stop(graceMs) {
      peers.stopListening();
      const empty = peers.empty();
      for (const connection of peers.owners()) connection.finish();
      const timer = setTimeout(() => peers.destroy(), graceMs);
      await empty;
      clearTimeout(timer);
    },
  };
}

/** The machine itself may connect, and whom the networks name, in CIDR notation. An IPv4 address counts as one also where it came by a socket of IPv6. */
function peersOf(networks: readonly string[]): (peer: Peer) => boolean {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits = ''] = network.split('/');
    list.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return ({ address }) => address === null || list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}
