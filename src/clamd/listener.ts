// The sockets of clamd's protocol: a UNIX socket, a port of the loopback, or both; their connections, and how these end.
import { once } from 'node:events';
import { chmodSync, chownSync, lstatSync, readFileSync, unlinkSync } from 'node:fs';
import {
  BlockList,
  createConnection,
  createServer,
  isIPv6,
  type ListenOptions,
  type Server,
  type Socket,
} from 'node:net';
import { messageOfError } from '../error-text.js';
import { Connection, type ConnectionParts, type Way } from './connection.js';

export interface ClamdListenerOptions {
  /** Null: there is none. */
  readonly socketPath: string | null;
  /** Of the UNIX socket. */
  readonly socketMode: number;
  /** By its number or its name; null: that of the process. */
  readonly socketGroup: string | null;
  /** Null: there is none. */
  readonly port: number | null;
  /** Who may connect to the port beside the machine itself, in CIDR notation. Without any the port is the loopback's alone. */
  readonly networks: readonly string[];
  /** The next one is closed at once. */
  readonly connections: number;
  readonly onListening: (place: string) => void;
  /** Called once for a place that can't be had; it is tried again until it can. */
  readonly onTaken: (place: string, reason: string) => void;
}

export interface ClamdListener {
  /** Begins to listen without a wait for it: a process that is replaced leaves its place within a moment. */
  listen(): void;
  stopListening(): void;
  /** Connections that are open. */
  readonly connections: number;
  /** What runs is answered, within so long; nothing else is waited for. */
  stop(graceMs: number): Promise<void>;
}

const LOOPBACK = '127.0.0.1';
/** Between two tries: a client that is refused meanwhile comes again. */
const RETRY_MS = 100;
/** After as many of them it is no replacement of a process that is waited for. */
const TRIES = 100;
const LATER_MS = 2_000;

export function createClamdListener(options: ClamdListenerOptions, parts: ConnectionParts): ClamdListener {
  const { socketPath, socketMode, socketGroup, port, networks } = options;
  const allowed = listOf(networks);
  const open = new Set<Connection>();
  const places: Place[] = [];
  let whenEmpty: (() => void) | null = null;

  function serve(way: Way): Server {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
      const isStranger = way === 'tcp' && !isAllowed(allowed, socket);
      if (isStranger || open.size >= options.connections) {
        socket.destroy();
        return;
      }
      const connection = new Connection(parts, socket, way);
      open.add(connection);
      socket.on('close', () => {
        open.delete(connection);
        if (open.size === 0) whenEmpty?.();
      });
    });
    // What a place can't be had for is heard where it is tried; an accept that fails is the client's to try again.
    server.on('error', () => undefined);
    return server;
  }

  return {
    listen() {
      if (socketPath !== null) {
        // It has its mode from its first moment on.
        const prepare = (): Promise<void> => removeDeadSocket(socketPath);
        const done = (): void => {
          chmodSync(socketPath, socketMode);
          if (socketGroup !== null) chownSync(socketPath, process.getuid?.() ?? -1, groupOf(socketGroup));
        };
        places.push(
          keepListening(serve('unix'), { path: socketPath, mask: 0o777 & ~socketMode, prepare, done }, options),
        );
      }
      if (port !== null) {
        const where = networks.length === 0 ? { port, host: LOOPBACK } : { port };
        places.push(keepListening(serve('tcp'), { ...where, exclusive: true }, options));
      }
    },
    stopListening() {
      for (const place of places) place.close();
    },
    get connections() {
      return open.size;
    },
    async stop(graceMs) {
      for (const place of places) place.close();
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

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  list.addSubnet('127.0.0.0', 8, 'ipv4');
  list.addAddress('::1', 'ipv6');
  for (const network of networks) {
    const [address = '', bits = ''] = network.split('/');
    list.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** An IPv4 address counts as one also where it came by a socket of IPv6. */
function isAllowed(allowed: BlockList, { remoteAddress = '' }: Socket): boolean {
  return allowed.check(remoteAddress, isIPv6(remoteAddress) ? 'ipv6' : 'ipv4');
}

/** Node has no call for names of groups. Throws for one that /etc/group doesn't have. */
function groupOf(group: string): number {
  if (/^\d+$/.test(group)) return Number(group);
  const lines = readFileSync('/etc/group', 'utf8').split('\n');
  const line = lines.find((each) => each.startsWith(`${group}:`));
  if (line === undefined) throw new Error(`there is no group ${group}`);
  return Number(line.split(':')[2]);
}

interface Place {
  close(): void;
}

type Where = ListenOptions & {
  /** The umask while it is bound. */
  readonly mask?: number;
  readonly prepare?: () => Promise<void>;
  readonly done?: () => void;
};

function keepListening(
  server: Server,
  { mask, prepare, done, ...where }: Where,
  { onListening, onTaken }: Pick<ClamdListenerOptions, 'onListening' | 'onTaken'>,
): Place {
  const name = where.path ?? `${where.host ?? '*'}:${where.port}`;
  let isClosed = false;
  let isTold = false;
  let tries = 0;
  let retry: NodeJS.Timeout | null = null;

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

  void tryOnce();
  return {
    close() {
      if (isClosed) return;
      isClosed = true;
      if (retry !== null) clearTimeout(retry);
      server.close();
    },
  };
}

/** Of a process that was killed. Rejects when it is anything else, or somebody listens there. */
async function removeDeadSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error('there is something else than a socket');
  const isServed = await new Promise<boolean>((resolve) => {
    const socket = createConnection(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error) => resolve(!('code' in error && error.code === 'ECONNREFUSED')));
  });
  if (isServed) throw new Error('another process listens there');
  unlinkSync(path);
}
