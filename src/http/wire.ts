// What the HTTP libraries have in common: one request as it was read off its connection, the ways to answer it, and a server of them.
import type { ConnectionLimits } from './connections.js';

/** What came before the body, as it was sent. */
export interface RequestHead {
  readonly method: string;
  /** Up to the question mark, nothing decoded. */
  readonly path: string;
  /** What is behind it; empty when there is none. */
  readonly query: string;
  readonly version: '1.0' | '1.1';
  /** In their order; names in lower case. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** What goes before the body of an answer; the library adds the date, and how the body is delimited. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** A body that is sent in pieces of unknown number. */
export interface PieceWriter {
  /** False: the client has to take something first. */
  write(piece: string): boolean;
  /** Called whenever it has. */
  onRoom(listener: () => void): void;
  end(): void;
}

export interface Ending {
  /** The connection ends with this answer. */
  readonly closes: boolean;
  /** All of the answer is out of our hands: the wire must not be touched any more. */
  readonly done: () => void;
}

/**
 * One request and its connection, for as long as neither the answer is whole nor the client gone: nothing may be called after
 * that.
 */
export interface Wire {
  readonly head: RequestHead;
  /** Of the other end of the connection. */
  remoteAddress(): string;
  /** The connection ended before the answer was whole. */
  onAborted(listener: () => void): void;
  /** The bytes are the listener's only until it returns. To be called at once, and only if there is a body. */
  onData(listener: (bytes: Uint8Array, isLast: boolean) => void): void;
  /** Stops reading; what was read already is still delivered. */
  pause(): void;
  resume(): void;
  /** The body is sent as the client takes it. */
  answer(head: AnswerHead, body: string | Uint8Array, ending: Ending): void;
  /** `lengthBytes`: of the body that is not sent; null: nothing is said about it. */
  answerWithoutBody(head: AnswerHead, lengthBytes: number | null, ending: Ending): void;
  /** Sends all of the answer but its last byte, and returns what sends that one; `done` as in an Ending. */
  answerButOneByte(head: AnswerHead, body: Uint8Array): (done: () => void) => void;
  answerInPieces(head: AnswerHead, closes: boolean): PieceWriter;
  /** Ends the connection at once, so that nobody takes what was sent for the whole. */
  abort(): void;
}

export interface ListenOptions {
  readonly host: string;
  /** 0: a free port is chosen. */
  readonly port: number;
  /** A listening socket that this process was given; null: one of its own. */
  readonly inherited: number | null;
  readonly limits: ConnectionLimits;
  readonly onRequest: (wire: Wire) => void;
  /** The last connection is gone. */
  readonly onEmpty: () => void;
}

export interface Listening {
  readonly port: number;
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
