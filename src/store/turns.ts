// The embedded store's one session shared by several processes: a socket on which each connection has its turn, from its first
// message to the end of its transaction. PGlite's own socket server interleaves connections by message, which mixes up portals.
import { chmodSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { SOCKET_NAME } from './data-lock.js';
import { createBackendReader, createFrontendReader } from './turn-messages.js';

export interface Turns {
  /** Connections that are there. */
  readonly connections: number;
  /** Resolves when the last connection has gone. */
  unused(): Promise<void>;
  /** Ends every connection and the socket. */
  stop(): Promise<void>;
}

/**
 * Nobody else gets a turn while the one whose turn it is keeps silent inside a transaction or a message; after this it is rolled
 * back. A statement may take as long as it takes: it is not for its client to speak then.
 */
const SILENCE_MS = 10_000;

interface Client {
  readonly socket: Socket;
  readonly upstream: Socket;
  /** What came before its turn. */
  waiting: Buffer[];
  outstanding: number;
  inTransaction: boolean;
}

/** Listens in `directory` for what the PGlite socket in `upstreamDirectory` answers. */
export async function shareSession(
  directory: string,
  upstreamDirectory: string,
  silenceMs = SILENCE_MS,
): Promise<Turns> {
  const path = join(directory, SOCKET_NAME);
  const clients = new Set<Client>();
  const queue: Client[] = [];
  const gone = new Set<() => void>();
  let holder: Client | null = null;
  let silence: NodeJS.Timeout | undefined;

  function turn(): void {
    clearTimeout(silence);
    holder = queue.shift() ?? null;
    if (holder === null) return;
    for (const bytes of holder.waiting.splice(0)) holder.upstream.write(bytes);
    listen(holder);
  }

  /** Waits for the holder's next word, unless it is for the store to speak. */
  function listen(client: Client): void {
    clearTimeout(silence);
    if (client.outstanding > 0) return;
    silence = setTimeout(() => client.socket.destroy(), silenceMs);
  }

  function admit(socket: Socket): void {
    const client: Client = {
      socket,
      upstream: connect(join(upstreamDirectory, SOCKET_NAME)),
      waiting: [],
      outstanding: 0,
      inTransaction: false,
    };
    clients.add(client);
    const readFrontend = createFrontendReader(() => {
      client.outstanding += 1;
    });
    const readBackend = createBackendReader((status) => {
      client.outstanding -= 1;
      client.inTransaction = status !== 'I';
    });
    socket.on('data', (bytes: Buffer) => {
      readFrontend.read(bytes);
      if (holder === client) {
        client.upstream.write(bytes);
        listen(client);
        return;
      }
      client.waiting.push(bytes);
      if (!queue.includes(client)) queue.push(client);
      if (holder === null) turn();
    });
    client.upstream.on('data', (bytes: Buffer) => {
      readBackend.read(bytes);
      socket.write(bytes);
      if (holder !== client || client.outstanding > 0) return;
      if (client.inTransaction || readFrontend.isInside) listen(client);
      else turn();
    });
    const end = (): void => {
      if (!clients.delete(client)) return;
      socket.destroy();
      client.upstream.destroy();
      const place = queue.indexOf(client);
      if (place !== -1) queue.splice(place, 1);
      if (holder === client) turn();
      if (clients.size > 0) return;
      for (const told of gone) told();
      gone.clear();
    };
    for (const side of [socket, client.upstream]) side.on('close', end).on('error', end);
  }

  const server = createServer(admit);
  rmSync(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  chmodSync(path, 0o600);
  return {
    get connections() {
      return clients.size;
    },
    unused() {
      return clients.size === 0 ? Promise.resolve() : new Promise((resolve) => gone.add(resolve));
    },
    async stop() {
      clearTimeout(silence);
      const closed = new Promise((resolve) => server.close(resolve));
      for (const { socket } of clients) socket.destroy();
      await closed;
    },
  };
}
