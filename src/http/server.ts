// The HTTP server: uWebSockets.js listening, every request as an exchange, stopping without cutting anybody off.
import { createServer } from 'node:net';
import { HTTP_HEADER_BLOCK_BYTES } from '../limits.js';
import { type Exchange, type OnEnd, openExchange } from './exchange.js';
import { takeOver, whyNot } from './listener.js';

export interface ServerOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** A listening socket that this process was given, instead of one of its own; others may accept from it as well. */
  readonly inheritedDescriptor?: number | null;
  readonly handle: (exchange: Exchange) => void;
  readonly onEnd: OnEnd;
}

export interface Server {
  readonly port: number;
  /** Requests that have no answer yet. */
  readonly open: number;
  /**
   * Accepts no more connections. Those that are there go on, and each one's next answer is its last: a client with a pool of
   * connections finds out from an answer, not from a reset.
   */
  stopListening(): void;
  /** Resolves when the last connection is gone; after `idleMs` without those that have no request; with requests, `requestMs` later. */
  drain(limits: DrainLimits): Promise<void>;
  /** Stops listening, waits for the answers that are due, at most `graceMs`, and closes every connection. */
  stop(graceMs: number): Promise<void>;
}

export interface DrainLimits {
  /** For connections to end, or to send what they have begun to. */
  readonly idleMs: number;
  /** For the requests that are open then. */
  readonly requestMs: number;
}

/** Starts listening; rejects when the address can't be had. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const inherited = options.inheritedDescriptor ?? null;
  if (inherited === null) await assertFree(options.host, options.port);
  // Read by the library when it is loaded, so it is loaded here.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(HTTP_HEADER_BLOCK_BYTES);
  const { App, us_listen_socket_close, us_socket_local_port } = await import('uws-pack');
  const app = App();
  let open = 0;
  let connections = 0;
  let retiring = false;
  let listening = true;
  let isStopping = false;
  const waiting = new Set<() => void>();

  const changed = (): void => {
    for (const look of [...waiting]) look();
  };

  const onEnd: OnEnd = (exchange, status) => {
    open -= 1;
    options.onEnd(exchange, status);
    if (open === 0) changed();
  };

  const onConnection = (_response: unknown, change: number): void => {
    connections += change;
    if (connections === 0) changed();
  };
  app.filter(onConnection);
  app.any('/*', (response, request) => {
    open += 1;
    options.handle(openExchange(response, request, onEnd, () => retiring));
  });

  const socket = await new Promise<Parameters<typeof us_listen_socket_close>[0]>((resolve, reject) => {
    // An inherited socket needs one of the library's own, to be put in its place before anybody can connect to it.
    const { host, port } = inherited === null ? options : { host: '127.0.0.1', port: 0 };
    app.listen(host, port, (listener) => {
      if (listener === false) {
        reject(new Error(`Cannot listen on ${host}:${port}`));
        return;
      }
      try {
        if (inherited !== null) takeOver(us_socket_local_port(listener), inherited);
        resolve(listener);
      } catch (error) {
        reject(error);
      }
    });
  });
  const port = us_socket_local_port(socket);

  function stopListening(): void {
    retiring = true;
    if (listening) us_listen_socket_close(socket);
    listening = false;
  }

  /** Resolves when the condition holds, which only changes with a request or a connection, or after the time. */
  async function until(condition: () => boolean, limitMs: number): Promise<void> {
    if (condition()) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        waiting.delete(look);
        resolve();
      };
      const look = (): void => {
        if (condition()) end();
      };
      const timer = setTimeout(end, limitMs);
      waiting.add(look);
    });
  }

  return {
    port,
    get open() {
      return open;
    },
    stopListening,
    async drain({ idleMs, requestMs }) {
      await until(() => isStopping || (connections === 0 && open === 0), idleMs);
      await until(() => isStopping || open === 0, requestMs);
    },
    async stop(graceMs) {
      stopListening();
      isStopping = true;
      changed();
      await until(() => open === 0, graceMs);
      app.close();
    },
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
