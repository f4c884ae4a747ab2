// What the protocols beside HTTP have in common: what listens on sockets that were opened before, for those who may connect, as long as there is room; and what a
// connection has brought, which waits here, and the client with it, while the parser of its protocol is held.
import { BlockList, isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Share } from './door.js';
import { CLAMD_SOCKET_CONNECTIONS, HANDSHAKE_MS, PIPELINED_AT_ONCE } from './limits.js';
import { type ListeningSocket, type Peer, type PeerOwner, Peers } from './peers.js';
import { CoarseTimer, type TimerOwner } from './waiting/coarse-timer.js';
import type { PutOff } from './waiting/put-off.js';
import { endsWithin } from './waiting/within.js';

interface ListenerOptions {
  /** Other processes may accept from them as well. This one closes its descriptors when it doesn't any more. */
  readonly sockets: readonly ListeningSocket[];
  /** Among the processes on these sockets; null: there are no others. */
  readonly share: Share | null;
  /** Who may connect to a port beside the machine itself, in CIDR notation. */
  readonly networks: readonly string[];
  /** The next one is closed at once. Where there is a UNIX socket as well, those of ports leave it some. */
  readonly connections: number;
  readonly onListening: () => void;
  /** Whether there is room for open files that come along; by default they are not taken. */
  readonly takesFiles?: () => boolean;
  /** The connection is paused. */
  readonly open: (peer: Peer) => PeerOwner;
}

export type Listener = ReturnType<typeof createListener>;

export function createListener({
  sockets,
  share,
  networks,
  connections,
  onListening,
  takesFiles = () => false,
  open,
}: ListenerOptions) {
  const mayConnect = peersOf(networks);
  const hasSocket = sockets.some(({ way }) => way === 'unix');
  const ofPorts = hasSocket ? connections - Math.min(CLAMD_SOCKET_CONNECTIONS, connections >> 2) : connections;
  const hasRoom = ({ way }: Peer) => peers.size <= connections && (way === 'unix' || peers.ofPorts <= ofPorts);
  const peers: Peers = new Peers((peer) => (hasRoom(peer) && mayConnect(peer) ? open(peer) : null), share, takesFiles);
  return {
    listen(): void {
      for (const socket of sockets) peers.listen(socket);
      onListening();
    },
    stopListening: (): void => peers.stopListening(),
    /** After `stopListening`, when another process takes new connections. Resolves when those that are left have ended, or after so long. */
    async drain(limitMs: number): Promise<void> {
      for (const connection of peers.owners()) connection.retire();
      await endsWithin(peers.empty(), limitMs);
    },
    /** What runs is answered, within so long; nothing else is waited for. */
    async stop(graceMs: number): Promise<void> {
      // Who has begun to connect is taken in.
      if (sockets.length > 0) await delay(HANDSHAKE_MS);
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

interface Reader {
  /** Nothing more is taken until it is false again. */
  isHeld: boolean;
  /** Returns how many bytes were taken: fewer than there are when it is held, or has taken PARSED_AT_ONCE things. */
  write(bytes: Uint8Array): number;
  /** What comes from now on is dropped. */
  stop(): void;
}

/** One connection: what has arrived and isn't taken waits here. */
export abstract class Connection implements TimerOwner, PutOff {
  before: PutOff | null = null;
  behind: PutOff | null = null;
  protected readonly peer: Peer;
  protected readonly timer = new CoarseTimer(this);
  protected abstract readonly parser: Reader;
  /** Nothing new is taken any more: it ends when all is answered. */
  protected isEnding = false;
  protected isEnded = false;
  /** The client sends nothing more. */
  #hasAll = false;
  #rest: Buffer | null = null;
  #isPumping = false;
  /** Others have their turn first. */
  #isPutOff = false;

  /** `firstMs`: for what it is to say first. */
  constructor(peer: Peer, firstMs: number) {
    this.peer = peer;
    this.timer.start(firstMs);
    peer.resume();
  }

  abstract onDue(): void;

  /** For our part or for the client's reading: nothing more is taken meanwhile. */
  protected abstract mustWait(): boolean;

  /** The client sends nothing more, and all of it was taken. */
  protected abstract onCut(): void;

  protected get hasTakenAll(): boolean {
    return this.#rest === null;
  }

  /** The bytes are the caller's again when this returns. */
  protected take(bytes: Buffer): void {
    const isLent = this.#rest === null;
    this.#rest = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes]);
    this.pump();
    if (isLent && this.#rest !== null) this.#rest = Buffer.from(this.#rest);
  }

  /** To be called when a reason to wait has gone. Others have their turn when much was taken. */
  protected pump(): void {
    if (this.#isPumping || this.#isPutOff) return;
    this.#isPumping = true;
    for (let count = 0; this.#rest !== null && (this.isEnded || !this.mustWait()); count += 1) {
      if (count === PIPELINED_AT_ONCE) {
        this.#putOff();
        break;
      }
      const rest = this.#rest;
      this.parser.isHeld = false;
      const taken = this.parser.write(rest);
      // What was read may have been the reason to drop it.
      if (this.#rest !== null) this.#rest = taken === rest.length ? null : rest.subarray(taken);
    }
    this.#isPumping = false;
    // A client that waits with nothing sent is read from, so that its end is heard of.
    if (this.#rest === null) this.peer.resume();
    else this.peer.pause();
    if (this.#hasAll && this.#rest === null && !this.isEnded) this.onCut();
  }

  #putOff(): void {
    this.#isPutOff = true;
    this.peer.putOff(this);
  }

  /** For `Peers`. */
  onTurn(): void {
    this.#isPutOff = false;
    this.pump();
  }

  onEnd(): void {
    this.#hasAll = true;
    this.pump();
  }

  /** For good, when what was written has gone out. `drainMs`: for what the client still sends, which is read and dropped, so that it reads the answer before it hears of the end. */
  protected end(drainMs: number): void {
    if (this.isEnded) return;
    this.isEnded = true;
    this.peer.end();
    this.#drop();
    this.timer.start(drainMs);
  }

  onClose(): void {
    this.timer.stop();
    this.isEnded = true;
    this.#drop();
  }

  #drop(): void {
    this.parser.stop();
    this.#rest = null;
    this.peer.resume();
  }
}
