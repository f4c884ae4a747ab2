// One request from its headers to its answer: headers checked once, the body handed on as it arrives, one answer. That the client has gone is a state of it.
import { Failure, Unavailable } from '../errors.js';
import { DRAIN_REST_BYTES, JSON_BODY_BYTES, SMALL_CHUNK_BYTES, SMALL_CHUNKS } from '../limits.js';
import type { InLine, Line } from '../waiting/line.js';
import type { BodyBudget, BodyRoom, Drain, Drained, Drains } from './bodies.js';
import type { Ready, Turns } from './turns.js';
import {
  type AnswerHead,
  type Framing,
  failureReply,
  headOf,
  type Reply,
  readFraming,
  requestIdOf,
  type Wire,
  type WireOwner,
} from './wire.js';

const REQUEST_TIMEOUT = 408;
const NOTHING = Buffer.alloc(0);

export interface BodySink {
  /** The bytes, which may be none, are the sink's only until this returns. `isLast`: the body is over. */
  take(bytes: Buffer, isLast: boolean): void;
  /** The body was not there in the time that `Exchange.dueMs` says. */
  onDue?(): void;
  /** The client has left before its answer, or, with a Failure, it is there and its body can't be had, because there was no memory for it. */
  onLost?(reason: Error): void;
}

export interface ExchangeHost {
  readonly turns: Turns;
  readonly bodies: BodyBudget;
  readonly drains: Drains;
  /** Its socket is read from now on, and may be silent for long: `keepReading` is called every few seconds, `look` every few milliseconds. */
  reads(exchange: Exchange): void;
  /** Those of which that is true. */
  readonly read: Line<Exchange>;
  /** The connection ends with an answer that is given now, because this process does. */
  readonly isRetiring: boolean;
  /** Status null: the client went away before its answer was out. */
  ended(exchange: Exchange, status: number | null): void;
}

export class Exchange implements Framing, WireOwner, Ready, Drained, InLine<Exchange> {
  before: Exchange | null = null;
  behind: Exchange | null = null;
  place: Ready['place'] = null;
  readonly headers: Framing['headers'];
  readonly body: Framing['body'];
  readonly problem: Framing['problem'];
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly requestId: string;
  /** As log and metrics call it: method and template of the route. */
  route = 'none';
  /** The connection ends with the answer. */
  closeAfter: boolean;
  /** The caller is known: the part of the budget of bodies that strangers can't use is open to it. */
  isVouchedFor = false;
  /** By the clock of `performance`: the sink hears of it when its body is not there by then, up to 20 ms later. */
  dueMs: number = Number.POSITIVE_INFINITY;
  /** That the client leaves is looked for: since `watch`, and until this is false. Where the answer isn't there a moment later the socket rests then; most are, and are spared the calls. */
  isWatched = false;

  readonly #wire: Wire;
  readonly #host: ExchangeHost;
  #reply: Reply | null = null;
  /** The answer is out, or the client gone: the wire is not touched any more, uWebSockets.js throws on a dead one. */
  #isEnded = false;
  #isGone = false;
  #abortion: AbortController | null = null;
  /** All of the answer was sent but its last byte. */
  #isButOneByte = false;
  /** Goes on with an answer in pieces. */
  #wake: (() => void) | null = null;
  /** Of the budget, until the end. */
  #heldBytes = 0;

  /** What becomes of bytes that arrive. */
  #mode: 'kept' | 'received' | 'drained' | 'dropped' = 'kept';
  /** Nobody receives them yet. */
  #kept: Buffer[] | null = null;
  /** Of the room, for these. */
  #keptBytes = 0;
  #room: BodyRoom;
  #sink: BodySink | null = null;
  /** The whole body has arrived. */
  #isWhole: boolean;
  /** Of the body, so far. */
  #receivedBytes = 0;
  /** Chunks in the turn with that number, less one for every `SMALL_CHUNK_BYTES` of them. */
  #smallChunks = 0;
  #turn = 0;
  #isPaused = false;
  /** The sink has no room. */
  #isHeld = false;
  /** There was no room for what is kept, and the body will never be whole. */
  #lost: Failure | null = null;
  #drain: Drain | null = null;
  /** Takes a request over from the HTTP library; to be called before its handler returns. */
  constructor(wire: Wire, host: ExchangeHost) {
    const { head } = wire;
    const { headers, body, problem } = readFraming(head);
    this.headers = headers;
    this.body = body;
    this.problem = problem;
    this.method = head.method;
    this.path = head.path;
    this.query = head.query;
    this.requestId = requestIdOf(headers);
    // Nobody knows where a contradictory request ends, nor, for certain, a chunked one (wire.ts). HTTP/1.0 has no other end.
    this.closeAfter = problem !== null || body.kind === 'chunked' || head.version === '1.0';
    this.#wire = wire;
    this.#host = host;
    this.#room = host.bodies;
    // uWebSockets.js never calls the data handler for `Content-Length: 0` when the header came in two packets.
    this.#isWhole = body.kind === 'none';
    host.turns.heard = this;
    wire.open(this, !this.#isWhole);
    if (!this.#isWhole) host.reads(this);
  }

  /** Of the other end of the connection, which may be a proxy. To be asked before anything is waited for: it goes with the connection. */
  remoteAddress(): string {
    return this.#wire.remoteAddress();
  }

  isGone(): boolean {
    return this.#isGone;
  }

  /** Of the body of its answer; null: it has none, or is sent in pieces. */
  answerBytes(): number | null {
    const body = this.#reply?.body ?? null;
    return typeof body === 'string' || body instanceof Uint8Array ? Buffer.byteLength(body) : null;
  }

  /** Aborted when that happens. Costs some microseconds when it is first asked for. */
  signal(): AbortSignal {
    if (this.#abortion === null) {
      this.#abortion = new AbortController();
      // A late caller gets a signal that has aborted already.
      if (this.#isGone) this.#abortion.abort(gone());
    }
    return this.#abortion.signal;
  }

  // Its body.

  /** Delivers the body to the sink, from its first byte; until then the socket is held back. It hears at once where there is nothing to come any more. */
  receive(sink: BodySink): void {
    const reason = this.#isGone ? gone() : this.#lost;
    if (reason !== null) {
      sink.onLost?.(reason);
      return;
    }
    this.#mode = 'received';
    this.#sink = sink;
    const kept = this.#kept;
    if (kept !== null) {
      // First: where it counts may be what the sink takes from.
      this.#forgetKept();
      for (const bytes of kept) sink.take(bytes, false);
    }
    if (this.#isWhole) sink.take(NOTHING, true);
    else if (!this.#isHeld && this.#isPaused) this.#resumeReading();
  }

  /** What arrives before anybody receives it counts there, in the place of the budget of all bodies. To be called before anything has arrived. */
  keepIn(room: BodyRoom): void {
    this.#room = room;
  }

  /** Takes memory for so many bytes of the body from the budget of all of them, until the end; false: there is none. */
  hold(bytes: number): boolean {
    if (this.#isEnded || this.#reply !== null) return false;
    if (!this.#host.bodies.take(bytes, this.isVouchedFor ? 'whole' : 'open')) return false;
    this.#heldBytes += bytes;
    return true;
  }

  /** Holds the socket back while the sink has no room; what was read from it already is still delivered. */
  pauseBody(): void {
    this.#isHeld = true;
    this.#pause();
  }

  resumeBody(): void {
    this.#isHeld = false;
    // Behind its end the socket is read again with the answer.
    if (!this.#isWhole) this.#resumeReading();
  }

  /**
   * Lets the socket be read on while a slow answer is made, once the body is there: else a client that leaves is noticed only with the answer. The price: a
   * request that comes before the answer closes the connection (uWebSockets.js).
   */
  watch(): void {
    if (this.#isEnded || !this.#isWhole || this.isWatched) return;
    this.isWatched = true;
    if (!this.#isPaused) return;
    this.#resumeReading();
    if (!this.#host.read.has(this)) this.#host.reads(this);
  }

  /**
   * Whether it is late, or whole. Until the answer is out the socket isn't read then: uWebSockets.js closes a connection whose next request arrives before
   * that. What is answered sooner is spared it, since each change of what a socket is asked for costs four calls of the kernel.
   */
  look(nowMs: number): void {
    if (!this.#isWhole) {
      if (this.dueMs > nowMs) return;
      this.dueMs = Number.POSITIVE_INFINITY;
      this.#sink?.onDue?.();
    } else if (!this.isWatched) {
      this.#host.read.remove(this);
      this.#pause();
    }
  }

  keepReading(): void {
    if (this.#isPaused) return;
    this.#wire.pause();
    this.#wire.resume();
  }

  onBytes(bytes: Buffer, isLast: boolean): void {
    this.#host.turns.heard = this;
    this.#isWhole = isLast;
    this.#receivedBytes += bytes.length;
    if (this.body.kind === 'chunked' && this.#isFlood(bytes.length)) {
      this.#endFlood();
      return;
    }
    switch (this.#mode) {
      case 'kept':
        if (!isLast) this.#pause();
        if (bytes.length > 0) this.#keep(bytes);
        return;
      case 'received':
        this.#sink?.take(bytes, isLast);
        return;
      case 'drained':
        if (isLast) this.endDrain();
        else this.#drain?.read(bytes.length);
        return;
      case 'dropped':
    }
  }

  /** Each chunk is a call, of up to 80,000 that the library makes for one read: nobody else has a turn meanwhile. */
  #isFlood(bytes: number): boolean {
    const turn = this.#host.turns.number();
    if (turn !== this.#turn) this.#smallChunks = 0;
    this.#turn = turn;
    this.#smallChunks += 1 - bytes / SMALL_CHUNK_BYTES;
    return this.#smallChunks > SMALL_CHUNKS;
  }

  /** At once, inside of the run, which ends with it. For whatever else waits for this request its client has gone. */
  #endFlood(): void {
    if (this.#isEnded) return;
    const reply =
      this.#reply ??
      failureReply(new Failure('badFraming', `Chunks are too small: send at least ${SMALL_CHUNK_BYTES} bytes in each`));
    if (typeof reply.body !== 'string' || endsWithHead(this.method, reply.status)) this.#wire.abort();
    else this.#wire.answerAndAbort(headOf(reply, this.requestId), reply.body);
    // node:http tells of it later, and goes on with what it has read until then.
    this.onEnd(false);
  }

  #keep(bytes: Buffer): void {
    // A small body has come with its header, also that of an account: strangers must not be able to keep it out.
    const part = this.#keptBytes + bytes.length > JSON_BODY_BYTES ? 'open' : 'whole';
    if (this.#room.take(bytes.length, part)) {
      this.#keptBytes += bytes.length;
      this.#kept ??= [];
      this.#kept.push(Buffer.from(bytes));
      return;
    }
    this.#forgetBody();
    this.#lost = bodiesFull();
  }

  #forgetKept(): void {
    this.#room.giveBack(this.#keptBytes);
    this.#kept = null;
    this.#keptBytes = 0;
  }

  /** Sink, kept bytes and drain. */
  #forgetBody(): void {
    this.#drain?.stop();
    this.#drain = null;
    this.#mode = 'dropped';
    this.#sink = null;
    if (this.#kept !== null) this.#forgetKept();
  }

  #pause(): void {
    if (this.#isEnded || this.#isPaused) return;
    this.#isPaused = true;
    this.#wire.pause();
  }

  /** Lets the socket be read again: the next request may come. */
  #resumeReading(): void {
    if (this.#isEnded || !this.#isPaused) return;
    this.#isPaused = false;
    this.#wire.resume();
  }

  /** Drops what still arrives, when its turn is; the answer is given when the body ends, the client falls silent, or a bound is reached. */
  #dropRest(): void {
    this.#forgetBody();
    this.#mode = 'drained';
    this.#drain = this.#host.drains.begin(this, this.#restBytes(), this.#reply?.status === REQUEST_TIMEOUT);
  }

  endDrain(): void {
    this.#forgetBody();
    this.#host.turns.answer(this, this);
  }

  // Its answer.

  /**
   * Answers, once. Does nothing when the client is gone. Where the body is still to come, all of the answer but its last byte is sent, and that when the body
   * has come: the socket stays ours while it drains. With a complete answer uWebSockets.js would close the connection after ten seconds, under clients that
   * read only after sending. `isInRun` false: the library is not at what it has read (turns.ts).
   */
  reply(reply: Reply, isInRun = true): void {
    if (this.#isEnded) return;
    if (this.#reply !== null) throw new Error(`${this.method} ${this.path} was answered twice`);
    this.#reply = reply;
    this.closeAfter ||= this.#host.isRetiring;
    if (this.#isWhole || this.problem !== null) {
      if (isInRun || this.closeAfter) this.#host.turns.answer(this, this);
      else this.give();
      return;
    }
    if (!this.closeAfter && typeof reply.body === 'string' && !endsWithHead(this.method, reply.status)) {
      this.#isButOneByte = true;
      this.#wire.answerButOneByte(headOf(reply, this.requestId), Buffer.from(`${reply.body}\n`));
    }
    this.#dropRest();
  }

  /** Its turn has come. */
  give(): void {
    if (this.#isEnded || this.#reply === null) return;
    // Closing while the client still sends would take the answer from it; the library closes some seconds later.
    const closes = this.closeAfter && (this.#isWhole || this.problem !== null);
    if (!(closes || this.#isWhole || this.#hasShortRest())) this.#pause();
    else if (this.#isPaused) this.#resumeReading();
    const wire = this.#wire;
    const { status, body } = this.#reply;
    const head = headOf(this.#reply, this.requestId);
    if (this.#isButOneByte) wire.answerRest();
    else if (typeof body === 'object' && Symbol.asyncIterator in body) {
      // RFC 9110 section 9.3.2: the length that GET would have had; nobody knows that of pieces.
      if (this.method === 'HEAD') wire.answerWithoutBody(head, null, closes);
      else void this.#sendPieces(head, body, closes);
    } else if (endsWithHead(this.method, status)) {
      wire.answerWithoutBody(head, status === 204 ? null : Buffer.byteLength(body), closes);
    } else wire.answer(head, body, closes);
    // The library ends the connection of a client that doesn't take all of it.
    if (!this.#isEnded) this.#host.read.remove(this);
  }

  /** Behind the whole answer the library would read the rest of a body as fast as it comes, and nobody could hold it back. */
  #hasShortRest(): boolean {
    const restBytes = this.#restBytes();
    return restBytes !== null && restBytes <= DRAIN_REST_BYTES;
  }

  /** Of the body; null: nobody knows. */
  #restBytes(): number | null {
    return this.body.kind === 'sized' ? this.body.bytes - this.#receivedBytes : null;
  }

  /** The next piece is asked for when the client has taken the one before. Pieces that can't be made end the connection; their maker says why. */
  async #sendPieces(head: AnswerHead, pieces: AsyncIterable<string>, closes: boolean): Promise<void> {
    try {
      this.#wire.beginPieces(head, closes);
      for await (const piece of pieces) {
        if (this.#isEnded) return;
        const hasRoom = piece === '' || this.#wire.writePiece(piece);
        // Both libraries end a connection that takes nothing for ten seconds.
        if (!hasRoom && !this.#isEnded) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
        if (this.#isEnded) return;
      }
      if (!this.#isEnded) this.#wire.endPieces();
    } catch {
      if (!this.#isEnded) this.#wire.abort();
    }
  }

  onRoom(): void {
    this.#wake?.();
  }

  onEnd(isSent: boolean): void {
    if (!isSent) this.#host.turns.forget(this);
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#host.read.remove(this);
    const sink = this.#sink;
    if (this.#mode !== 'received' || !this.#isWhole) this.#forgetBody();
    this.#wake?.();
    if (this.#heldBytes > 0) this.#host.bodies.giveBack(this.#heldBytes);
    this.#heldBytes = 0;
    this.#isGone = !isSent;
    if (this.#isGone) {
      this.#abortion?.abort(gone());
      sink?.onLost?.(gone());
    }
    this.#sink = null;
    this.#host.ended(this, isSent ? (this.#reply?.status ?? null) : null);
  }
}

/** There is no memory left for bodies that are no uploads. */
export const bodiesFull = (): Failure => new Unavailable('bodiesBusy');

/** RFC 9112 section 6.3: a byte behind it would be the first one of the next answer. */
const endsWithHead = (method: string, status: number): boolean => method === 'HEAD' || status === 204 || status === 304;

const gone = (): Error => new Error('The client went away');
