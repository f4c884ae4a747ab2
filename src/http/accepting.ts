// Connections taken in as long as there is room for them: beyond that they wait in the kernel, and those without a request end.
import type { HttpResponse } from 'uws-pack';
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
  stop(): void;
}

/** How often a server that is full looks whether it still is. */
const FULL_LOOK_MS = 50;
/** Accepting again costs a look at all descriptors: so much must be free by then, unless nothing more comes free for a while. */
const FREE_SHARE = 1 / 16;
const FREE_LOOKS = 10;

/** Rejects when the address can't be had. */
export async function startAccepting({ limits, onEmpty, ...options }: AcceptingOptions): Promise<Accepting> {
  let timer: NodeJS.Timeout | undefined;
  let looks = 0;
  let isStopped = false;
  /** Null: nobody can connect yet. */
  let held: { readonly acceptor: Acceptor; readonly connections: Connections } | null = null;

  function resumeWhenFree({ acceptor, connections }: NonNullable<typeof held>): void {
    looks += 1;
    const free = limits.limit - connections.count();
    const isEnough = free >= limits.limit * FREE_SHARE || (free > 0 && looks >= FREE_LOOKS);
    if (isEnough && acceptor.resume()) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    const waiting = acceptor.waiting();
    if (waiting > 0) connections.makeRoom(waiting);
  }

  function onConnection(response: HttpResponse, change: number): void {
    if (held === null) return;
    const { acceptor, connections } = held;
    if (change < 0) {
      connections.closed();
      if (connections.count() === 0) onEmpty();
      return;
    }
    if (!connections.opened(() => Buffer.from(response.getRemoteAddressAsText()).toString('latin1'))) {
      response.close();
      return;
    }
    if (isStopped || !acceptor.canPause || !connections.isFull() || acceptor.isPaused()) return;
    acceptor.pause();
    looks = 0;
    const full = held;
    timer = setInterval(() => resumeWhenFree(full), FULL_LOOK_MS);
    timer.unref();
  }

  options.app.filter(onConnection);
  const acceptor = await openAcceptor(options);
  const { port } = acceptor;
  const kernel = acceptor.canPause ? { list: () => listConnections(port), hangUp } : null;
  const connections = createConnections(limits, kernel);
  held = { acceptor, connections };
  return {
    port,
    connections: connections.count,
    stop() {
      if (isStopped) return;
      isStopped = true;
      clearInterval(timer);
      acceptor.close();
    },
  };
}
