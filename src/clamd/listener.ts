// The sockets of clamd's protocol: a UNIX socket, a port of the loopback, or both.
import { chmodSync, chownSync, lstatSync, readFileSync, unlinkSync } from 'node:fs';
import { createConnection, createServer, type Server } from 'node:net';
import { type ListeningHooks, OpenConnections, type Place, peersOf, placeOf, portFor } from '../listening.js';
import { Connection, type ConnectionParts, type Way } from './connection.js';

export interface ClamdListenerOptions extends ListeningHooks {
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

export function createClamdListener(options: ClamdListenerOptions, parts: ConnectionParts): ClamdListener {
  const { socketPath, port, networks } = options;
  const mayConnect = peersOf(networks);
  const open = new OpenConnections();
  const places: Place[] = [];

  function serve(way: Way): Server {
    return createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
      const isStranger = way === 'tcp' && !mayConnect(socket);
      if (isStranger || open.size >= options.connections) socket.destroy();
      else open.add(new Connection(parts, socket, way), socket);
    });
  }

  if (socketPath !== null) places.push(placeOfSocket(serve('unix'), socketPath, options));
  if (port !== null) places.push(placeOf(serve('tcp'), portFor(port, networks), options));

  function stopListening(): void {
    for (const place of places) place.close();
  }

  return {
    listen() {
      for (const place of places) place.listen();
    },
    stopListening,
    get connections() {
      return open.size;
    },
    async stop(graceMs) {
      stopListening();
      await open.end(graceMs);
    },
  };
}

function placeOfSocket(server: Server, path: string, options: ClamdListenerOptions): Place {
  const { socketMode, socketGroup } = options;
  const where = {
    path,
    // It has its mode from its first moment on.
    mask: 0o777 & ~socketMode,
    prepare: () => removeDeadSocket(path),
    done() {
      chmodSync(path, socketMode);
      if (socketGroup !== null) chownSync(path, process.getuid?.() ?? -1, groupOf(socketGroup));
    },
  };
  return placeOf(server, where, options);
}

/** Node has no call for names of groups. Throws for one that /etc/group doesn't have. */
function groupOf(group: string): number {
  if (/^\d+$/.test(group)) return Number(group);
  const lines = readFileSync('/etc/group', 'utf8').split('\n');
  const line = lines.find((each) => each.startsWith(`${group}:`));
  if (line === undefined) throw new Error(`there is no group ${group}`);
  return Number(line.split(':')[2]);
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
