// The HTTP server: uWebSockets.js listening, every request as an exchange, stopping without cutting anybody off.
import { HTTP_HEADER_BLOCK_BYTES } from '../limits.js';
import { startAccepting } from './accepting.js';
import { createBodyBudget } from './body-budget.js';
import type { ConnectionLimits } from './connections.js';
import { type Exchange, type OnEnd, openExchange } from './exchange.js';

export interface ServerOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** A listening socket that this process was given, instead of one of its own; others may accept from it as well. */
  readonly inheritedDescriptor?: number | null;
  /** Default: as many as come. */
  readonly connections?: ConnectionLimits;
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

const UNLIMITED: ConnectionLimits = {
  limit: Number.POSITIVE_INFINITY,
  perAddress: null,
  groupOf: (address) => address,
};

/** Starts listening; rejects when the address can't be had. */
export async function startServer(options: ServerOptions): Promise<Server> {
  // Read by the library when it is loaded, so it is loaded here.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(HTTP_HEADER_BLOCK_BYTES);
  const { App, ...library } = await import('uws-pack');
  const app = App();
  let open = 0;
  let retiring = false;
  let isStopping = false;
  const waiting = new Set<() => void>();
  const openHolding = createBodyBudget();
  const isRetiring = (): boolean => retiring;

  const changed = (): void => {
    for (const look of [...waiting]) look();
  };

  const onEnd: OnEnd = (exchange, status) => {
    open -= 1;
    options.onEnd(exchange, status);
    if (open === 0) changed();
  };

  app.any('/*', (response, request) => {
    open += 1;
    options.handle(openExchange(response, request, onEnd, isRetiring, openHolding));
  });

  const accepting = await startAccepting({
    app,
    library,
    host: options.host,
    port: options.port,
    inherited: options.inheritedDescriptor ?? null,
    limits: options.connections ?? UNLIMITED,
    onEmpty: changed,
  });

  function stopListening(): void {
    retiring = true;
    accepting.stop();
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
    port: accepting.port,
    get open() {
      return open;
    },
    stopListening,
    async drain({ idleMs, requestMs }) {
      await until(() => isStopping || (accepting.connections() === 0 && open === 0), idleMs);
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
