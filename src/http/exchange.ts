// One request and its lifetime: headers checked once, the body handed on as it arrives, one answer. That the client has gone is a state of it.
import { type Failure, Unavailable } from '../errors.js';
import type { Holding } from './body-budget.js';
import { type Framing, readFraming } from './framing.js';
import {
  type BodySink,
  closeInbound,
  drainBody,
  goOnWithBody,
  holdBody,
  type Inbound,
  openInbound,
  receiveBody,
  resumeReading,
  unwatchClient,
  watchClient,
} from './inbound.js';
import { isPieces, type Outbound, openOutbound } from './outbound.js';
import { requestIdOf } from './request-id.js';
import type { Ready, Turns } from './turns.js';
import type { AnswerHead, Wire } from './wire.js';

export interface Reply {
  readonly status: number;
  /** A list is sent as several headers of that name. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Not sent with 204 and 304, which have none (of a 304 it is what the 200 has). Pieces are sent one after the other, as the client takes them. */
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
  /** The caller is known: the part of that budget that strangers can't use is open to it. */
  vouch(): void;
  /** Holds the socket back while the sink has no room; what was read from it already is still delivered. */
  pauseBody(): void;
  /** Goes on after that. */
  resumeBody(): void;
  /**
   * Lets the socket be read on, a tenth of a second later, while a slow answer is made, once the body is there: else a client that leaves is noticed only
   * with the answer. The price: a request that comes before the answer closes the connection (uWebSockets.js).
   */
  watch(): void;
  /** Ends the watch: a request that comes now is answered after this one. */
  unwatch(): void;
  /** Answers, once. Does nothing when the client is gone. */
  reply(reply: Reply): void;
}

/** How a request ended. Status null: the client went away before its answer was out. */
export type OnEnd = (exchange: Exchange, status: number | null) => void;

const BODILESS: readonly number[] = [204, 304];

/** What is going on with one request; only the functions of this file write to it. */
interface Course {
  readonly wire: Wire;
  readonly turns: Turns;
  readonly framing: Framing;
  readonly requestId: string;
  readonly inbound: Inbound;
  readonly holding: Holding;
  readonly onEnd: (status: number | null) => void;
  /** The connection ends with the answer. */
  closeAfter: boolean;
  state: 'open' | 'answered' | 'ended';
  abortion: AbortController | null;
  isGone: boolean;
  isVouchedFor: boolean;
  /** The body can't be had. */
  lost: Failure | null;
  goneListener: ((reason: Error) => void) | null;
  outbound: Outbound | null;
  /** The answer that waits for its turn. */
  ready: Ready | null;
}

/**
 * Takes a request over from the HTTP library; to be called before its handler returns. `isRetiring`, asked when the answer is
 * there: the connection ends with it, because this process does.
 */
export function openExchange(
  wire: Wire,
  onEnd: OnEnd,
  isRetiring: () => boolean,
  { openHolding, turns }: { readonly openHolding: () => Holding; readonly turns: Turns },
): Exchange {
  const { head } = wire;
  const framing = readFraming(head);
  turns.hear(wire);
  const course: Course = {
    wire,
    turns,
    framing,
    requestId: requestIdOf(framing.headers),
    inbound: openInbound(wire, { body: framing.body, holding: openHolding(), turns }, () => loseBody(course)),
    holding: openHolding(),
    onEnd: (status) => onEnd(exchange, status),
    // Nobody knows where a contradictory request ends, nor, for certain, a chunked one (framing.ts). HTTP/1.0 has no other end.
    closeAfter: framing.problem !== null || framing.body.kind === 'chunked' || head.version === '1.0',
    state: 'open',
    abortion: null,
    isGone: false,
    isVouchedFor: false,
    lost: null,
    goneListener: null,
    outbound: null,
    ready: null,
  };
  wire.onAborted(() => end(course, null));
  const exchange: Exchange = {
    headers: framing.headers,
    body: framing.body,
    problem: framing.problem,
    method: head.method,
    path: head.path,
    query: head.query,
    remoteAddress: wire.remoteAddress,
    requestId: course.requestId,
    isGone: () => course.isGone,
    signal: () => signalOf(course),
    onGone: (listener) => listen(course, listener),
    receive: (sink) => receiveBody(course.inbound, sink),
    hold: (bytes) => course.state === 'open' && course.holding.take(bytes, course.isVouchedFor ? 'whole' : 'open'),
    vouch() {
      course.isVouchedFor = true;
    },
    pauseBody: () => holdBody(course.inbound),
    resumeBody: () => goOnWithBody(course.inbound),
    watch: () => watchClient(course.inbound),
    unwatch: () => unwatchClient(course.inbound),
    reply(answer) {
      if (course.state === 'ended') return;
      if (course.state === 'answered') throw new Error(`${head.method} ${head.path} was answered twice`);
      course.state = 'answered';
      course.closeAfter ||= isRetiring();
      reply(course, answer);
    },
  };
  return exchange;
}

function end(course: Course, status: number | null): void {
  if (course.state === 'ended') return;
  course.state = 'ended';
  if (course.ready !== null) course.turns.forget(course.ready);
  closeInbound(course.inbound);
  course.outbound?.close();
  course.holding.giveBack();
  course.isGone = status === null;
  if (course.isGone) {
    course.abortion?.abort(gone());
    course.goneListener?.(gone());
  }
  course.goneListener = null;
  course.onEnd(status);
}

function loseBody(course: Course): void {
  course.lost = bodiesFull();
  course.goneListener?.(course.lost);
}

function signalOf(course: Course): AbortSignal {
  if (course.abortion === null) {
    course.abortion = new AbortController();
    // A late caller gets a signal that has aborted already.
    if (course.isGone) course.abortion.abort(gone());
  }
  return course.abortion.signal;
}

function listen(course: Course, listener: ((reason: Error) => void) | null): void {
  course.goneListener = listener;
  if (course.isGone) listener?.(gone());
  else if (course.lost !== null) listener?.(course.lost);
}

function reply(course: Course, answer: Reply): void {
  const { inbound, closeAfter, framing } = course;
  const give = (): void => finish(course, answer);
  if (inbound.isEnded || framing.problem !== null) awaitTurn(course, give);
  else if (!closeAfter && typeof answer.body === 'string') answerEarly(course, answer, answer.body);
  else drainBody(inbound, () => awaitTurn(course, give));
}

/** Gives the answer when it is its turn. */
function awaitTurn(course: Course, give: () => void): void {
  const { isVouchedFor, closeAfter } = course;
  course.ready = { isVouchedFor, closeAfter, give };
  course.turns.answer(course.wire, course.ready);
}

function finish(course: Course, answer: Reply): void {
  if (course.state === 'ended') return;
  const { wire, framing, inbound } = course;
  resumeReading(inbound);
  // Closing while the client still sends would take the answer from it; the library closes some seconds later.
  const closes = course.closeAfter && (inbound.isEnded || framing.problem !== null);
  const { status, body } = answer;
  const isHead = wire.head.method === 'HEAD';
  const head = headOf(answer, course.requestId);
  const done = (): void => end(course, status);
  if (isPieces(body)) {
    if (isHead) {
      // RFC 9110 section 9.3.2: the length that GET would have had; nobody knows that of pieces.
      wire.answerWithoutBody(head, null, { closes, done });
      return;
    }
    course.outbound = openOutbound(wire, { head, closes, done });
    course.outbound.send(body);
  } else if (status === 204) wire.answerWithoutBody(head, null, { closes, done });
  else if (isHead || status === 304) wire.answerWithoutBody(head, Buffer.byteLength(body), { closes, done });
  else wire.answer(head, body, { closes, done });
}

/**
 * Sends all of the answer but its last byte, and that when the body has come: the socket stays ours while it drains. With a
 * complete answer uWebSockets.js would close the connection after ten seconds, under clients that read only after sending.
 */
function answerEarly(course: Course, answer: Reply, text: string): void {
  const { status } = answer;
  const sendRest = course.wire.answerButOneByte(headOf(answer, course.requestId), Buffer.from(`${text}\n`));
  drainBody(course.inbound, () => {
    awaitTurn(course, () => {
      if (course.state === 'ended') return;
      resumeReading(course.inbound);
      sendRest(() => end(course, status));
    });
  });
}

const NO_HEADERS: NonNullable<Reply['headers']> = {};

function headOf(reply: Reply, requestId: string): AnswerHead {
  const { status, headers = NO_HEADERS, contentType = 'application/json; charset=utf-8' } = reply;
  const list: [string, string][] = BODILESS.includes(status) ? [] : [['Content-Type', contentType]];
  list.push(['X-Request-Id', requestId], NO_SNIFFING);
  if (headers['Cache-Control'] === undefined) list.push(NO_STORE);
  for (const name in headers) {
    const value = headers[name];
    if (typeof value === 'string') list.push([name, value]);
    else for (const each of value ?? []) list.push([name, each]);
  }
  return { status, headers: list };
}

const NO_SNIFFING: [string, string] = ['X-Content-Type-Options', 'nosniff'];
const NO_STORE: [string, string] = ['Cache-Control', 'no-store'];

/** There is no memory left for bodies that are no uploads. */
export function bodiesFull(): Failure {
  return new Unavailable('bodiesBusy');
}

function gone(): Error {
  return new Error('The client went away');
}
