// One request and its lifetime: headers checked once, the body handed on as it arrives, one answer. Who goes away is a state.
import { STATUS_CODES } from 'node:http';
import { v7 as uuidv7 } from 'uuid';
import type { HttpRequest, HttpResponse } from 'uws-pack';
import { Failure } from '../errors.js';
import type { Holding } from './body-budget.js';
import { type Framing, readFraming } from './framing.js';
import { type BodySink, openInbound } from './inbound.js';
import { isPieces, type Outbound, openOutbound } from './outbound.js';

export interface Reply {
  readonly status: number;
  /** A list is sent as several headers of that name. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Empty with 204 and 304, which have none. Pieces are sent one after the other, as the client takes them. */
  readonly body: string | Uint8Array | AsyncIterable<string>;
  /** Default: `application/json; charset=utf-8`. */
  readonly contentType?: string;
}

/** Without getters, as Inbound is. */
export interface Exchange extends Framing {
  readonly method: string;
  /** As sent, nothing decoded. */
  readonly path: string;
  /** What is behind the question mark, as sent; empty when there is none. */
  readonly query: string;
  /** Of the other end of the connection, which may be a proxy. To be asked before anything is waited for: it goes with the connection. */
  remoteAddress(): string;
  readonly requestId: string;
  /** The client went away before its answer. */
  isGone(): boolean;
  /** Aborted when that happens. Costs some microseconds when it is first asked for. */
  signal(): AbortSignal;
  /**
   * The same for less: calls the listener, with the reason that the signal would have, until it is taken off. One at a time. It is
   * also called, with a Failure, when the client is there and its body can't be had, because there was no memory for it.
   */
  onGone(listener: ((reason: Error) => void) | null): void;
  /** Delivers the body to the sink, from its first byte; until then the socket is held back. */
  receive(sink: BodySink): void;
  /** Takes memory for so many bytes of the body from the budget of all of them, until the end; false: there is none. */
  hold(bytes: number): boolean;
  /** It is known who asks: the part of that budget that strangers can't use is open to it. */
  vouch(): void;
  /** Holds the socket back while the sink has no room; what was read from it already is still delivered. */
  pauseBody(): void;
  /** Goes on after that. */
  resumeBody(): void;
  /**
   * Lets the socket be read on while a slow answer is made, once the body is there: else a client that leaves is noticed only
   * with the answer. The price: a request that comes before the answer closes the connection (uWebSockets.js).
   */
  watch(): void;
  /** Answers, once. Does nothing when the client is gone. */
  reply(reply: Reply): void;
}

/** How a request ended. Status null: the client went away before its answer was out. */
export type OnEnd = (exchange: Exchange, status: number | null) => void;

const BODILESS: readonly number[] = [204, 304];

/** What is taken over as request id: a token that is safe in logs and headers. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * Takes a request over from uWebSockets.js, which wants its handlers set before the request handler returns. `isRetiring`,
 * asked when the answer is there: the connection ends with it, because this process does.
 */
export function openExchange(
  response: HttpResponse,
  request: HttpRequest,
  onEnd: OnEnd,
  isRetiring: () => boolean,
  openHolding: () => Holding,
): Exchange {
  const framing = readFraming(request);
  const holding = openHolding();
  const inbound = openInbound(response, framing.body, openHolding(), () => {
    lost = bodiesFull();
    goneListener?.(lost);
  });
  const claimedId = framing.headers.get('x-request-id');
  // Nobody knows where a contradictory request ends, nor, for certain, a chunked one (framing.ts).
  let closeAfter = framing.problem !== null || framing.body.kind === 'chunked';
  let state: 'open' | 'answered' | 'ended' = 'open';
  let abortion: AbortController | null = null;
  let isGone = false;
  let isVouchedFor = false;
  let lost: Failure | null = null;
  let goneListener: ((reason: Error) => void) | null = null;
  let outbound: Outbound | null = null;

  response.onAborted(() => end(null));

  function end(status: number | null): void {
    if (state === 'ended') return;
    state = 'ended';
    inbound.close();
    outbound?.close();
    holding.giveBack();
    isGone = status === null;
    if (isGone) {
      abortion?.abort(gone());
      goneListener?.(gone());
    }
    goneListener = null;
    onEnd(exchange, status);
  }

  function reply(answer: Reply): void {
    if (state === 'ended') return;
    if (state === 'answered') throw new Error(`${exchange.method} ${exchange.path} was answered twice`);
    state = 'answered';
    closeAfter ||= isRetiring();
    if (closeAfter) answerLast(answer);
    else if (inbound.isEnded()) finish(answer);
    else if (typeof answer.body === 'string') inbound.drain(answerEarly(answer, answer.body));
    else inbound.drain(() => finish(answer));
  }

  /**
   * The connection's last answer is given outside of the parser's run: what else came in the same packet would be served
   * as a request if the answer were already out, and closes the connection if it isn't.
   */
  function answerLast(answer: Reply): void {
    const later = (): void => {
      setImmediate(() => finish(answer));
    };
    if (inbound.isEnded() || framing.problem !== null) later();
    else inbound.drain(later);
  }

  function finish(answer: Reply): void {
    if (state === 'ended') return;
    inbound.resume();
    // Closing while the client still sends would take the answer from it; uWebSockets.js closes ten seconds later.
    const closes = closeAfter && (inbound.isEnded() || framing.problem !== null);
    const { body } = answer;
    if (isPieces(body) && exchange.method !== 'HEAD') {
      outbound = openOutbound(response, { head: () => writeHead(answer), closes, done: () => end(answer.status) });
      outbound.send(body);
      return;
    }
    response.cork(() => {
      writeHead(answer);
      if (BODILESS.includes(answer.status)) response.endWithoutBody(undefined, closes);
      // RFC 9110 section 9.3.2: the length that GET would have had; nobody knows that of pieces.
      else if (exchange.method === 'HEAD')
        response.endWithoutBody(isPieces(body) ? undefined : Buffer.byteLength(body), closes);
      else if (!isPieces(body)) response.end(body, closes);
    });
    end(answer.status);
  }

  /**
   * Sends all of the answer but its last byte, and returns what sends that: the socket stays ours while it drains. With a
   * complete answer uWebSockets.js would close the connection after ten seconds, under clients that read only after sending.
   */
  function answerEarly(answer: Reply, text: string): () => void {
    const body = Buffer.from(`${text}\n`);
    response.cork(() => {
      writeHead(answer);
      response.tryEnd(body.subarray(0, -1), body.length);
    });
    return () => {
      if (state === 'ended') return;
      inbound.resume();
      response.cork(() => response.tryEnd(body.subarray(-1), body.length));
      end(answer.status);
    };
  }

  function writeHead({ status, headers = {}, contentType = 'application/json; charset=utf-8' }: Reply): void {
    response.writeStatus(`${status} ${STATUS_CODES[status] ?? 'Unknown'}`);
    if (!BODILESS.includes(status)) response.writeHeader('Content-Type', contentType);
    response.writeHeader('X-Request-Id', exchange.requestId);
    response.writeHeader('X-Content-Type-Options', 'nosniff');
    if (headers['Cache-Control'] === undefined) response.writeHeader('Cache-Control', 'no-store');
    for (const [name, value] of Object.entries(headers)) {
      for (const each of typeof value === 'string' ? [value] : value) response.writeHeader(name, each);
    }
  }

  const exchange: Exchange = {
    headers: framing.headers,
    body: framing.body,
    problem: framing.problem,
    method: request.getCaseSensitiveMethod(),
    path: request.getUrl(),
    query: request.getQuery() ?? '',
    remoteAddress: () => Buffer.from(response.getRemoteAddressAsText()).toString('latin1'),
    requestId: claimedId !== undefined && REQUEST_ID.test(claimedId) ? claimedId : uuidv7(),
    isGone: () => isGone,
    signal() {
      if (abortion === null) {
        abortion = new AbortController();
        // Whoever asks late hears of it all the same.
        if (isGone) abortion.abort(gone());
      }
      return abortion.signal;
    },
    onGone(listener) {
      goneListener = listener;
      if (isGone) listener?.(gone());
      else if (lost !== null) listener?.(lost);
    },
    receive: inbound.receive,
    hold: (bytes) => state === 'open' && holding.take(bytes, isVouchedFor ? 'whole' : 'open'),
    vouch() {
      isVouchedFor = true;
    },
    pauseBody: inbound.pauseBody,
    resumeBody: inbound.resumeBody,
    watch: inbound.resume,
    reply,
  };
  return exchange;
}

const BODIES_RETRY_SECONDS = 1;

/** There is no memory left for bodies that are no uploads. */
export function bodiesFull(): Failure {
  return new Failure('unavailable', 'Too many request bodies at once', BODIES_RETRY_SECONDS);
}

function gone(): Error {
  return new Error('The client went away');
}
