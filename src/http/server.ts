// The HTTP server: uWebSockets.js listening, every request as an exchange, stopping without cutting anybody off.
import { createServer } from 'node:net';
import { HTTP_HEADER_BLOCK_BYTES } from '../limits.js';
import { type Exchange, type OnEnd, openExchange } from './exchange.js';

export interface ServerOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly handle: (exchange: Exchange) => void;
  readonly onEnd: OnEnd;
}

export interface Server {
  readonly port: number;
  /** Requests that have no answer yet. */
  readonly open: number;
  /** Stops listening, waits for the answers that are due, at most `graceMs`, and closes every connection. */
  stop(graceMs: number): Promise<void>;
}

/** Starts listening; rejects when the address can't be had. */
export async function startServer(options: ServerOptions): Promise<Server> {
  await assertFree(options.host, options.port);
  // Read by the library when it is loaded, so it is loaded here.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(HTTP_HEADER_BLOCK_BYTES);
  const { App, us_listen_socket_close, us_socket_local_port } = await import('uws-pack');
  const app = App();
  let open = 0;
  let onIdle: (() => void) | null = null;

  const onEnd: OnEnd = (exchange, status) => {
    open -= 1;
    options.onEnd(exchange, status);
    if (open === 0) onIdle?.();
  };

  app.any('/*', (response, request) => {
    open += 1;
    options.handle(openExchange(response, request, onEnd));
  });

  const socket = await new Promise<Parameters<typeof us_listen_socket_close>[0]>((resolve, reject) => {
    app.listen(options.host, options.port, (listening) => {
      if (listening === false) reject(new Error(`Cannot listen on ${options.host}:${options.port}`));
      else resolve(listening);
    });
  });

  return {
    port: us_socket_local_port(socket),
    get open() {
      return open;
    },
    async stop(graceMs) {
      us_listen_socket_close(socket);
      if (open > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, graceMs);
          onIdle = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
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
    probe.once('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'another program listens there; set PORT to a free one' : error.message;
      reject(new Error(`Cannot listen on ${host}:${port}: ${why}`));
    });
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve()));
  });
}
