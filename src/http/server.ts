// The HTTP server: a library listening, every request as an exchange, stopping without cutting anybody off.
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Share } from '../door.js';
import { REST_AFTER_MS } from '../limits.js';
import { CoarseTimer, type TimerOwner } from '../waiting/coarse-timer.js';
import { Line } from '../waiting/line.js';
import { endsWithin } from '../waiting/within.js';
import { BodyBudget, Drains } from './bodies.js';
import type { ConnectionLimits } from './connections.js';
import { Exchange, type ExchangeHost } from './exchange.js';
import { nodeLibrary } from './node/serve.js';
import { type Ready, Turns } from './turns.js';
import { loadUws, uwsLibrary } from './uws/wire.js';
import { type AnswerHead, type HttpLibrary, type RequestHead, requestIdOf, type Wire, type WireOwner } from './wire.js';

interface ServerOptions {
  /** Default: the fastest that can be had here. */
  readonly library?: HttpLibrary;
  readonly host: string;
  /** 0: a free port is chosen. */
  readonly port: number;
  /** A listening socket that this process was given, instead of one of its own; others may accept from it as well. */
  readonly inheritedDescriptor?: number | null;
  /** Among the processes on that socket; default: there are no others. */
  readonly share?: Share | null;
  /** Default: as many as come. */
  readonly connections?: ConnectionLimits;
  /** Requests that are refused before anything is made of them. Null: it is none of them. Default: none is. */
  readonly findRefusal?: FindRefusal | null;
  readonly handle: (exchange: Exchange) => void;
  /** Before anything of a request is waited for. Default: nobody looks. */
  readonly onBegin?: ((exchange: Exchange) => void) | null;
  readonly onEnd: (request: EndedRequest, status: number | null) => void;
}

/** What requests are answered with, made before anybody asks; the id of the request goes with it. */
export interface PreparedAnswer {
  readonly head: AnswerHead;
  readonly body: Uint8Array;
}

interface EarlyRefusal extends Pick<EndedRequest, 'route'> {
  readonly answer: PreparedAnswer;
  readonly headers: ReadonlyMap<string, string>;
}

/** The caller is known. What the request has of a body is short: the library reads it behind the answer. */
export type FindRefusal = (head: RequestHead) => EarlyRefusal | null;

export type EndedRequest = Pick<Exchange, 'requestId' | 'method' | 'path' | 'route' | 'answerBytes'>;

export type Server = Awaited<ReturnType<typeof startServer>>;

interface DrainLimits {
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

/** The requests without an answer, and what waits for a change of their number, or of the connections'. */
class Requests implements ExchangeHost, TimerOwner {
  readonly turns = new Turns();
  readonly bodies = new BodyBudget();
  readonly drains: Drains;
  readonly read = new Line<Exchange>();
  isRetiring = false;
  count = 0;
  readonly #onEnd: ServerOptions['onEnd'];
  readonly #waiting = new Set<() => void>();
  readonly #resting = new CoarseTimer(this);

  constructor(onEnd: ServerOptions['onEnd'], groupOf: ConnectionLimits['groupOf']) {
    this.#onEnd = onEnd;
    this.drains = new Drains(groupOf, () => performance.now());
  }

  reads(exchange: Exchange): void {
    this.read.add(exchange);
    if (!this.#resting.isGoing) this.#resting.start(REST_AFTER_MS);
  }

  onDue(): void {
    const nowMs = performance.now();
    this.read.each((exchange) => exchange.look(nowMs));
    if (this.read.size > 0) this.#resting.start(REST_AFTER_MS);
  }

  changed(): void {
    for (const look of [...this.#waiting]) look();
  }

  ended(request: EndedRequest, status: number | null): void {
    this.count -= 1;
    this.#onEnd(request, status);
    if (this.count === 0 && this.#waiting.size > 0) this.changed();
  }

  /** Resolves when the condition holds, which only changes with a request or a connection, or after the time. */
  async until(condition: () => boolean, limitMs: number): Promise<void> {
    if (condition()) return;
    let look = (): void => undefined;
    const met = new Promise<void>((resolve) => {
      look = () => {
        if (condition()) resolve();
      };
    });
    this.#waiting.add(look);
    // Where this process stood still, the time is over before what came meanwhile is read.
    if (!(await endsWithin(met, limitMs))) await nextTurn();
    this.#waiting.delete(look);
  }
}

/** It costs no exchange. */
class RefusedRequest implements WireOwner, Ready, EndedRequest {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly route: string;
  readonly isVouchedFor = false;
  readonly closeAfter = false;
  place: Ready['place'] = null;
  readonly #wire: Wire;
  readonly #answer: PreparedAnswer;
  readonly #host: Requests;
  #isOpen = true;

  constructor(wire: Wire, { answer, headers, route }: EarlyRefusal, host: Requests) {
    this.requestId = requestIdOf(headers);
    this.route = route;
    this.method = wire.head.method;
    this.path = wire.head.path;
    this.#wire = wire;
    this.#answer = answer;
    this.#host = host;
    wire.open(this, false);
    host.turns.heard = this;
  }

  give(): void {
    if (!this.#isOpen) return;
    const { head, body } = this.#answer;
    const headers = [...head.headers, 'X-Request-Id', this.requestId];
    // With the connection a client that sends its body first would lose the answer: it ends the connection itself, or with its next request.
    if (this.#host.isRetiring) headers.push('Connection', 'close');
    this.#wire.answer({ ...head, headers }, body, false);
  }

  answerBytes(): number {
    return this.#answer.body.length;
  }

  onBytes(): void {
    // There is no body.
  }

  onRoom(): void {
    // Nor an answer in pieces.
  }

  onEnd(isSent: boolean): void {
    if (!isSent) this.#host.turns.forget(this);
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#host.ended(this, isSent ? this.#answer.head.status : null);
  }
}

/**
 * uWebSockets.js ends a connection that is read and has been silent, or brings less than 16 KB/s of a body, for 8 to 12 s since it was last
 * resumed. How long a body may take is for its receiver to say, with an answer.
 */
const RESUMED_EVERY_MS = 4_000;

/** Starts listening; rejects when the address can't be had. */
export async function startServer(options: ServerOptions) {
  const library = options.library ?? (await chooseLibrary('auto'));
  let isStopping = false;
  const { findRefusal, connections: limits = UNLIMITED } = options;
  const requests = new Requests(options.onEnd, limits.groupOf);

  const listening = await library.listen({
    host: options.host,
    port: options.port,
    inherited: options.inheritedDescriptor ?? null,
    share: options.share ?? null,
    limits,
    onRequest(wire) {
      requests.count += 1;
      // The last answer of a connection is for the exchange to give.
      const refusal = requests.isRetiring ? null : (findRefusal?.(wire.head) ?? null);
      if (refusal !== null) {
        requests.turns.refuse(new RefusedRequest(wire, refusal, requests));
        return;
      }
      const exchange = new Exchange(wire, requests);
      options.onBegin?.(exchange);
      options.handle(exchange);
    },
    onEmpty: () => requests.changed(),
  });
  const { accepting } = listening;
  const resuming = setInterval(() => {
    requests.read.each((exchange) => exchange.keepReading());
  }, RESUMED_EVERY_MS).unref();

  function stopListening(): void {
    requests.isRetiring = true;
    accepting.stop();
  }

  return {
    port: accepting.port,
    problem: listening.problem,
    /** Requests that have no answer yet. */
    get open(): number {
      return requests.count;
    },
    /**
     * Accepts no more connections. Those that are there go on, and each one's next answer is its last: a client with a pool of
     * connections finds out from an answer, not from a reset.
     */
    stopListening,
    /** Resolves when the last connection is gone; after `idleMs` without those that have no request; with requests, `requestMs` later. */
    async drain({ idleMs, requestMs }: DrainLimits): Promise<void> {
      await requests.until(() => isStopping || (accepting.connections() === 0 && requests.count === 0), idleMs);
      await requests.until(() => isStopping || requests.count === 0, requestMs);
    },
    /** Stops listening, waits for the answers that are due to all who have connected, at most `graceMs`, and closes every connection. 0: at once. */
    async stop(graceMs: number): Promise<void> {
      requests.isRetiring = true;
      if (graceMs > 0) await accepting.end();
      stopListening();
      isStopping = true;
      requests.changed();
      const hasNoConnection = (): boolean => accepting.connections() === 0;
      if (graceMs > 0) await requests.until(hasNoConnection, accepting.silenceMs());
      await requests.until(() => requests.count === 0, graceMs);
      clearInterval(resuming);
      listening.close();
    },
  };
}

/** `auto`: uWebSockets.js where it can be loaded, otherwise node:http, which is slower. Rejects with the reasons when the choice is `uws` and it can't be loaded. */
export async function chooseLibrary(choice: 'auto' | 'uws' | 'node'): Promise<HttpLibrary> {
  if (choice === 'node') return nodeLibrary('HTTP_SERVER=node');
  const loaded = await loadUws();
  if ('library' in loaded) return uwsLibrary(loaded);
  if (choice === 'auto') return nodeLibrary(loaded.problems.join('; '));
  throw new Error(`HTTP_SERVER=uws, but uWebSockets.js can't be loaded: ${loaded.problems.join('; ')}`);
}
