// The listening socket of a server: connections are taken in as long as there is room for them. Beyond that they wait in the kernel instead of being refused, and those without a request end.
import { closeSync } from 'node:fs';
import { createServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { type Acceptance, Door, type Share } from '../door.js';
import { HANDSHAKE_MS, SILENCE_MS } from '../limits.js';
import { type ProcessAddon, processAddon } from '../process-addon.js';
import {
  type ConnectionLimits,
  canShareListener,
  createConnections,
  hangUp,
  listConnections,
  openListener,
  portOf,
  refuseConnections,
  whyNot,
} from './connections.js';

interface Acceptor {
  readonly port: number;
  /** Connections can be left waiting, and the kernel asked about those that are there. */
  readonly canPause: boolean;
  isPaused(): boolean;
  /** May be called while connections are accepted: the one at hand is the last. */
  pause(): void;
  resume(): void;
  waiting(): number;
  /** Nobody begins to connect any more, where no other process listens. */
  refuse(): void;
  close(): void;
  /** After that: the listening socket that this process was given is closed here. */
  giveBack(): void;
}

/** A listening socket of the library's own. */
export interface LibrarySocket {
  /** As the kernel says it now. */
  port(): number;
  close(): void;
}

export interface AcceptorOptions {
  /** Where there is no addon. Resolves to null when it could not listen. */
  readonly listen: (host: string, port: number) => Promise<LibrarySocket | null>;
  /** Takes a connection, which the library owns from then on. */
  readonly adopt: (descriptor: number) => void;
  readonly host: string;
  /** 0: a free port is chosen. */
  readonly port: number;
  /** A listening socket that this process was given; null: one of its own. */
  readonly inherited: number | null;
  /** Among the processes on that socket; null: there are no others. */
  readonly share: Share | null;
}

/** As native/peers.cc says it. */
const NOT_NOW = -1;

/** Rejects when the address can't be had. */
async function openAcceptor(options: AcceptorOptions): Promise<Acceptor> {
  const { host, port, inherited, share } = options;
  const addon = processAddon();
  if (addon === null || !canShareListener()) return await libraryAcceptor(options);
  const held = inherited ?? (await openListener(host, port));
  const poller = addon.openPoller(() => door.look());
  const take = (): Acceptance => takeOne(addon, held, options);
  const door = new Door({ addon, poller, descriptor: held, share, take });
  share?.join();
  door.open();
  return {
    port: portOf(held),
    canPause: true,
    isPaused: () => !door.isOpen,
    pause: () => door.shut(),
    resume: () => door.open(),
    waiting: () => addon.waitingAt(held) ?? 0,
    refuse() {
      if (inherited === null) refuseConnections(held);
    },
    close() {
      share?.leave();
      door.shut();
      addon.closePoller(poller);
      if (inherited === null) closeSync(held);
    },
    giveBack() {
      if (inherited !== null) closeSync(inherited);
    },
  };
}

function takeOne(addon: ProcessAddon, listener: number, { adopt }: AcceptorOptions): Acceptance {
  const descriptor = addon.acceptDescriptor(listener);
  if (descriptor < 0) return descriptor === NOT_NOW ? 'notNow' : 'nobody';
  adopt(descriptor);
  return 'one';
}

/** Nothing can be left waiting. */
async function libraryAcceptor({ listen, host, port }: AcceptorOptions): Promise<Acceptor> {
  await assertFree(host, port);
  const socket = await listen(host, port);
  if (socket === null) throw new Error(`Cannot listen on ${host}:${port}`);
  return {
    port: socket.port(),
    canPause: false,
    isPaused: () => false,
    pause: () => undefined,
    resume: () => undefined,
    waiting: () => 0,
    refuse: () => undefined,
    close: () => socket.close(),
    giveBack: () => undefined,
  };
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

interface AcceptingOptions extends AcceptorOptions {
  readonly limits: ConnectionLimits;
  readonly onEmpty: () => void;
}

export type Accepting = Awaited<ReturnType<typeof startAccepting>>;

/** How often a server that is full looks whether it still is. */
const FULL_LOOK_MS = 50;

/** Rejects when the address can't be had. */
export async function startAccepting({ limits, onEmpty, ...options }: AcceptingOptions) {
  const acceptor = await openAcceptor(options);
  const { canPause, port } = acceptor;
  const connections = createConnections(limits, canPause ? { list: () => listConnections(port), hangUp } : null);
  const { share } = options;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  let openedMs = Number.NEGATIVE_INFINITY;

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

  function stop(): void {
    if (isStopped) return;
    isStopped = true;
    clearInterval(timer);
    acceptor.close();
  }

  return {
    port: acceptor.port,
    connections: connections.count,
    /** To be called with each connection that the library accepts. False: it is to be closed at once, and that is said as well. */
    opened(addressOf: () => string): boolean {
      openedMs = performance.now();
      const isTaken = connections.opened(addressOf);
      share?.say(connections.count());
      if (!isTaken) return false;
      if (isStopped || !acceptor.canPause || !connections.isFull() || acceptor.isPaused()) return true;
      acceptor.pause();
      timer ??= setInterval(resumeWhenFree, FULL_LOOK_MS).unref();
      return true;
    },
    closed(): void {
      connections.closed();
      share?.say(connections.count());
      if (connections.count() === 0) onEmpty();
    },
    stop,
    /** Once, before the process ends: who has begun to connect is taken in. */
    async end(): Promise<void> {
      if (!isStopped) {
        acceptor.refuse();
        await delay(HANDSHAKE_MS);
        stop();
      }
      acceptor.giveBack();
    },
    /** Who has just connected is about to ask: milliseconds until that is over; 0: it is. */
    silenceMs: (): number => Math.max(0, openedMs + SILENCE_MS - performance.now()),
  };
}
