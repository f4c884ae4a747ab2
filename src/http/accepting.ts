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

/** Rejects when the address can't be had. */
export async function startAccepting({ limits, onEmpty, ...options }: AcceptingOptions): Promise<Accepting> {
  const acceptor = await openAcceptor(options);
  const connections = connectionsOf(acceptor, limits);
  const { share } = options;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;

  function resumeWhenFree(): void {
    if (!acceptor.isPaused()) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    if (!connections.isFull()) {
      acceptor.resume();
      return;
    }
    const waiting = acceptor.waiting();
    if (waiting > 0) connections.makeRoom(waiting);
  }

  return {
    port: acceptor.port,
    connections: connections.count,
    opened(addressOf) {
      const isTaken = connections.opened(addressOf);
      share?.say(connections.count());
      if (!isTaken) return false;
      if (isStopped || !acceptor.canPause || !connections.isFull() || acceptor.isPaused()) return true;
      acceptor.pause();
      timer ??= setInterval(resumeWhenFree, FULL_LOOK_MS).unref();
      return true;
    },
    closed() {
      connections.closed();
      share?.say(connections.count());
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
