// The HTTP server: a library listening, every request as an exchange, stopping without cutting anybody off.
import { endsWithin } from '../waiting/within.js';
import { createBodyBudget } from './body-budget.js';
import type { ConnectionLimits } from './connections.js';
import { type Exchange, type OnEnd, openExchange } from './exchange.js';
import { chooseLibrary } from './library.js';
import { requestIdOf } from './request-id.js';
import type { PreparedAnswer } from './static-files.js';
import { type Ready, Turns } from './turns.js';
import type { HttpLibrary, RequestHead, Wire } from './wire.js';

export interface ServerOptions {
  /** Default: the fastest that can be had here. */
  readonly library?: HttpLibrary;
  readonly host: string;
  /** 0: a free port is chosen. */
  readonly port: number;
  /** A listening socket that this process was given, instead of one of its own; others may accept from it as well. */
  readonly inheritedDescriptor?: number | null;
  /** Default: as many as come. */
  readonly connections?: ConnectionLimits;
  /** Files that are in memory, asked for first: such a request costs no exchange. Null: it is not for one of them. Default: there are none. */
  readonly findFile?: FindFile;
  readonly handle: (exchange: Exchange) => void;
  readonly onEnd: (request: EndedRequest, status: number | null) => void;
}

export type FindFile = (
  head: RequestHead,
) => { readonly answer: PreparedAnswer; readonly headers: ReadonlyMap<string, string> } | null;

export type EndedRequest = Pick<Exchange, 'requestId' | 'method' | 'path'>;

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

/** The requests without an answer, and those that wait for a change of their number, or of the connections'. */
function createOpenRequests(onEnd: ServerOptions['onEnd']) {
  let count = 0;
  const waiting = new Set<() => void>();

  function changed(): void {
    for (const look of [...waiting]) look();
  }

  return {
    count: () => count,
    changed,
    began(): void {
      count += 1;
    },
    ended(request: EndedRequest, status: number | null): void {
      count -= 1;
      onEnd(request, status);
      if (count === 0) changed();
    },
    /** Resolves when the condition holds, which only changes with a request or a connection, or after the time. */
    async until(condition: () => boolean, limitMs: number): Promise<void> {
      if (condition()) return;
      let look = (): void => undefined;
      const met = new Promise<void>((resolve) => {
        look = () => {
          if (condition()) resolve();
        };
      });
      waiting.add(look);
      await endsWithin(met, limitMs);
      waiting.delete(look);
    },
  };
}

type OpenRequests = ReturnType<typeof createOpenRequests>;

interface FileParts {
  readonly open: OpenRequests;
  readonly turns: Turns;
  readonly findFile: ServerOptions['findFile'];
}

/** False: it is not for a file. */
function serveFile(wire: Wire, { open, turns, findFile }: FileParts): boolean {
  const found = findFile?.(wire.head) ?? null;
  if (found === null) return false;
  const { head, body } = found.answer;
  const request = { requestId: requestIdOf(found.headers), method: wire.head.method, path: wire.head.path };
  const headers = [...head.headers, ['X-Request-Id', request.requestId] as const];
  let isOpen = true;
  const end = (status: number | null): void => {
    if (!isOpen) return;
    isOpen = false;
    turns.forget(ready);
    open.ended(request, status);
  };
  const ready: Ready = {
    isVouchedFor: false,
    closeAfter: false,
    give() {
      const ending = { closes: false, done: () => end(head.status) };
      if (head.status === 304) wire.answerWithoutBody({ status: head.status, headers }, body.length, ending);
      else wire.answer({ status: head.status, headers }, body, ending);
    },
  };
  open.began();
  wire.onAborted(() => end(null));
  turns.hear(wire);
  turns.answer(wire, ready);
  return true;
}

/** Starts listening; rejects when the address can't be had. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const library = options.library ?? (await chooseLibrary('auto'));
  let retiring = false;
  let isStopping = false;
  const open = createOpenRequests(options.onEnd);
  const onEnd: OnEnd = open.ended;
  const openHolding = createBodyBudget();
  const turns = new Turns();
  const isRetiring = (): boolean => retiring;

  const listening = await library.listen({
    host: options.host,
    port: options.port,
    inherited: options.inheritedDescriptor ?? null,
    limits: options.connections ?? UNLIMITED,
    onRequest(wire) {
      // The last answer of a connection is for the exchange to give.
      if (!retiring && serveFile(wire, { open, turns, findFile: options.findFile })) return;
      open.began();
      options.handle(openExchange(wire, onEnd, isRetiring, { openHolding, turns }));
    },
    onEmpty: open.changed,
  });

  function stopListening(): void {
    retiring = true;
    listening.stop();
  }

  return {
    port: listening.port,
    get open() {
      return open.count();
    },
    stopListening,
    async drain({ idleMs, requestMs }) {
      await open.until(() => isStopping || (listening.connections() === 0 && open.count() === 0), idleMs);
      await open.until(() => isStopping || open.count() === 0, requestMs);
    },
    async stop(graceMs) {
      stopListening();
      isStopping = true;
      open.changed();
      await open.until(() => open.count() === 0, graceMs);
      listening.close();
    },
  };
}
