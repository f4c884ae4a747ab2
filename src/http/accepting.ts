// Connections taken in as long as there is room for them: beyond that they wait in the kernel, and those without a request end.
import { type Acceptor, type AcceptorOptions, openAcceptor } from './acceptor.js';
import { type ConnectionLimits, type Connections, createConnections } from './connections.js';
import { hangUp, listConnections } from './listener.js';

export interface AcceptingOptions extends AcceptorOptions {
  readonly limits: ConnectionLimits;
  /** The last connection is gone. */
  readonly onEmpty: () => void;
}

export interface Accepting {
  readonly port: number;
  connections(): number;
  /** To be called with each connection that the library accepts. False: it is to be closed at once, and that is said as well. */
  opened(addressOf: () => string): boolean;
  closed(): void;
  stop(): void;
}

/** How often a server that is full looks whether it still is. */
const FULL_LOOK_MS = 50;
/** Accepting again costs a look at all descriptors: so much must be free by then, unless nothing more comes free for a while. */
const FREE_SHARE = 1 / 16;
const FREE_LOOKS = 10;

/** Rejects when the address can't be had. */
export async function startAccepting({ limits, onEmpty, ...options }: AcceptingOptions): Promise<Accepting> {
  const acceptor = await openAcceptor(options);
  const connections = connectionsOf(acceptor, limits);
  let timer: NodeJS.Timeout | undefined;
  let looks = 0;
  let isStopped = false;

  function resumeWhenFree(): void {
    if (!acceptor.isPaused()) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    looks += 1;
    const free = limits.limit - connections.count();
    const isEnough = free >= limits.limit * FREE_SHARE || (free > 0 && looks >= FREE_LOOKS);
    if (isEnough) void acceptor.resume();
    const waiting = isEnough ? 0 : acceptor.waiting();
    if (waiting > 0) connections.makeRoom(waiting);
  }

  return {
    port: acceptor.port,
    connections: connections.count,
    opened(addressOf) {
      if (!connections.opened(addressOf)) return false;
      if (isStopped || !acceptor.canPause || !connections.isFull() || acceptor.isPaused()) return true;
      acceptor.pause();
      looks = 0;
      timer ??= setInterval(resumeWhenFree, FULL_LOOK_MS).unref();
      return true;
    },
    closed() {
      connections.closed();
      if (connections.count() === 0) onEmpty();
    },
    stop() {
      if (isStopped) return;
      isStopped = true;
      clearInterval(timer);
      acceptor.close();
    },
  };
}

function connectionsOf({ canPause, port }: Acceptor, limits: ConnectionLimits): Connections {
  return createConnections(limits, canPause ? { list: () => listConnections(port), hangUp } : null);
}
