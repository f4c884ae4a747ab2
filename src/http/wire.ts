// What the HTTP libraries have in common: one request as it was read off its connection, the ways to answer it, and a server of them.
import type { Share } from '../door.js';
import type { ConnectionLimits } from './connections.js';

/** What came before the body, as it was sent. */
export interface RequestHead {
  readonly method: string;
  /** Up to the question mark, nothing decoded. */
  readonly path: string;
  /** What is behind it; empty when there is none. */
  readonly query: string;
  readonly version: '1.0' | '1.1';
  /** In their order, each name, in lower case, before its value. */
  readonly headers: readonly string[];
}

/** What nearly all answers say, each name before its value. */
export const USUAL_HEADERS: readonly string[] = [
  ...['X-Content-Type-Options', 'nosniff'],
  ...['Cache-Control', 'no-store'],
  ...['Content-Type', 'application/json; charset=utf-8'],
];

/** What goes before the body of an answer; the library adds the date, and how the body is delimited. */
export interface AnswerHead {
  readonly status: number;
  /** The usual headers come first. */
  readonly isUsual: boolean;
  /** In their order, each name before its value. */
  readonly headers: readonly string[];
}

/** The request that a wire carries, which hears what comes of its connection. */
export interface WireOwner {
  /** The bytes are the owner's only until it returns. */
  onBytes(bytes: Buffer, isLast: boolean): void;
  /** The client has taken something of an answer in pieces. */
  onRoom(): void;
  /** All of the answer is out of our hands, or the connection ended before it was: the wire must not be touched any more. */
  onEnd(isSent: boolean): void;
}

/**
 * One request and its connection, for as long as neither the answer is whole nor the client gone: nothing may be called after
 * that. Of an answer, `closes` says that the connection ends with it.
 */
export interface Wire {
  readonly head: RequestHead;
  /** To be called at once; bytes are heard of only if there is a body. */
  open(owner: WireOwner, hasBody: boolean): void;
  /** Of the other end of the connection. */
  remoteAddress(): string;
  /** Stops reading; what was read already is still delivered. */
  pause(): void;
  resume(): void;
  /** The body is sent as the client takes it. */
  answer(head: AnswerHead, body: string | Uint8Array, closes: boolean): void;
  /** `lengthBytes`: of the body that is not sent; null: nothing is said about it. */
  answerWithoutBody(head: AnswerHead, lengthBytes: number | null, closes: boolean): void;
  /** Sends all of the answer but its last byte. */
  answerButOneByte(head: AnswerHead, body: Uint8Array): void;
  /** Sends that one. */
  answerRest(): void;
  /** Begins an answer of pieces of unknown number. */
  beginPieces(head: AnswerHead, closes: boolean): void;
  /** False: the client has to take something first. */
  writePiece(piece: string): boolean;
  endPieces(): void;
  /** Ends the connection at once, so that nobody takes what was sent for the whole. */
  abort(): void;
}

export interface ListenOptions {
  readonly host: string;
  /** 0: a free port is chosen. */
  readonly port: number;
  /** A listening socket that this process was given; null: one of its own. */
  readonly inherited: number | null;
  /** Among the processes on that socket; null: there are no others. */
  readonly share: Share | null;
  readonly limits: ConnectionLimits;
  readonly onRequest: (wire: Wire) => void;
  /** The last connection is gone. */
  readonly onEmpty: () => void;
}

export interface Listening {
  readonly port: number;
  /** What clients may unexpectedly notice of this library; null: nothing. */
  readonly problem: string | null;
  connections(): number;
  /** Accepts no more connections. */
  stop(): void;
  /** Ends those that are there. */
  close(): void;
}

export interface HttpLibrary {
  readonly name: 'uws' | 'node';
  /** For people: what it is, with its version. */
  readonly title: string;
  /** Why a faster one does not serve; null: this is the fastest. */
  readonly standsInFor: string | null;
  /** Rejects when the address can't be had. */
  listen(options: ListenOptions): Promise<Listening>;
}
