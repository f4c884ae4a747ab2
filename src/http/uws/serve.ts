// uWebSockets.js as an HTTP library.
import { type Accepting, startAccepting } from '../accepting.js';
import type { LibrarySocket } from '../acceptor.js';
import type { HttpLibrary, Listening, ListenOptions } from '../wire.js';
import type { UwsApp, UwsListenSocket, UwsModule, UwsResponse } from './api.js';
import type { LoadedUws } from './load.js';
import { addressOf, UwsWire } from './wire.js';

export function uwsLibrary({ library, title }: LoadedUws): HttpLibrary {
  return { name: 'uws', title, standsInFor: null, listen: (options) => listen(library, options) };
}

async function listen(library: UwsModule, { onRequest, ...options }: ListenOptions): Promise<Listening> {
  const app = library.App();
  /** Null: nobody can connect yet. */
  let accepting: Accepting | null = null;
  const onConnection = (response: UwsResponse, change: number): void => {
    if (change < 0) accepting?.closed();
    else if (accepting?.opened(() => addressOf(response)) === false) response.close();
  };
  app.filter(onConnection);
  app.any('/*', (response, request) => onRequest(new UwsWire(response, request)));
  accepting = await startAccepting({
    ...options,
    listen: async (host, port) => openSocket(library, app, { host, port }),
    adopt: (descriptor) => void app.adoptSocket(descriptor),
  });
  const { port, connections, stop } = accepting;
  return {
    port,
    connections,
    stop,
    close() {
      app.close();
    },
  };
}

/** Null: it could not listen. */
function openSocket(library: UwsModule, app: UwsApp, at: { host: string; port: number }): LibrarySocket | null {
  const opened: UwsListenSocket[] = [];
  app.listen(at.host, at.port, (socket) => {
    if (socket !== false) opened.push(socket);
  });
  const [socket] = opened;
  if (socket === undefined) return null;
  return {
    port: () => library.us_socket_local_port(socket),
    close: () => library.us_listen_socket_close(socket),
  };
}
