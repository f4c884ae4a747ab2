// A request of node:http as a wire, and what of its connection has its way through it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { DRAIN_BYTES } from '../../limits.js';
import { type AnswerHead, type RequestHead, USUAL_HEADERS, type Wire, type WireOwner } from '../wire.js';
import type { Reading, SendingLimit, TimeLimit } from './pace.js';

/** What a wire has of its connection. */
export interface WireConnection {
  readonly socket: Socket;
  readonly reading: Reading;
  readonly limit: TimeLimit;
  readonly sending: SendingLimit;
}

const NOTHING = Buffer.alloc(0);

export class NodeWire implements Wire {
  readonly head: RequestHead;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** All of the answer was handed over. */
  isAnswered: boolean;
  /** The system has all of it. */
  isSent: boolean;
  /** The connection ends with it. */
  closes: boolean;
  readonly #connection: WireConnection;
  readonly #address: string;
  #owner: WireOwner | null;
  /** Of the body, after the answer. */
  #discardedBytes: number;
  #lastByte: Uint8Array;

  constructor(request: IncomingMessage, response: ServerResponse, connection: WireConnection) {
    this.head = readHead(request);
    this.request = request;
    this.response = response;
    this.isAnswered = false;
    this.isSent = false;
    this.closes = false;
    this.#connection = connection;
    this.#address = request.socket.remoteAddress ?? '';
    this.#owner = null;
    this.#discardedBytes = 0;
    this.#lastByte = NOTHING;
    // Reading is for the connection to stop and to begin: Node would go on by itself until its buffers are full.
    request._read = () => undefined;
    // From here on what arrives goes to the owner at once, and nothing is buffered.
    request.read(0);
  }

  open(owner: WireOwner, hasBody: boolean): void {
    this.#owner = owner;
    if (!hasBody) {
      // What comes all the same is dropped as it comes.
      this.request.resume();
      return;
    }
    this.request.on('data', (bytes: Buffer) => {
      this.#received(bytes.length);
      owner.onBytes(bytes, false);
    });
    this.request.once('end', () => owner.onBytes(NOTHING, true));
  }

  #received(bytes: number): void {
    if (!this.isAnswered) return;
    this.#discardedBytes += bytes;
    if (this.#discardedBytes > DRAIN_BYTES) this.abort();
    else this.#connection.limit.received(bytes);
  }

  remoteAddress(): string {
    return this.#address;
  }

  pause(): void {
    this.#connection.reading.isHeldBack = true;
    this.#connection.reading.apply();
  }

  resume(): void {
    this.#connection.reading.isHeldBack = false;
    this.#connection.reading.apply();
  }

  answer(head: AnswerHead, body: string | Uint8Array, closes: boolean): void {
    this.#writeHead(head, closes, Buffer.byteLength(body));
    this.#end(closes, body);
  }

  answerWithoutBody(head: AnswerHead, lengthBytes: number | null, closes: boolean): void {
    this.#writeHead(head, closes, lengthBytes);
    this.#end(closes, NOTHING);
  }

  answerButOneByte(head: AnswerHead, body: Uint8Array): void {
    this.#writeHead(head, false, body.length);
    this.#lastByte = body.subarray(-1);
    this.response.write(body.subarray(0, -1));
  }

  answerRest(): void {
    this.#end(false, this.#lastByte);
  }

  beginPieces(head: AnswerHead, closes: boolean): void {
    this.closes = closes;
    this.#writeHead(head, closes, null);
    this.response.on('drain', () => {
      this.#connection.sending.stop();
      this.#owner?.onRoom();
    });
  }

  writePiece(piece: string): boolean {
    const hasRoom = this.response.write(piece);
    if (!hasRoom) this.#connection.sending.start();
    return hasRoom;
  }

  endPieces(): void {
    this.#end(this.closes, NOTHING);
  }

  abort(): void {
    this.#connection.socket.destroy();
  }

  /** The connection has ended. */
  aborted(): void {
    this.#owner?.onEnd(false);
  }

  /** Headers in the order in which uWebSockets.js has them. */
  #writeHead({ status, isUsual, headers }: AnswerHead, closes: boolean, lengthBytes: number | null): void {
    const list = isUsual ? [...USUAL_HEADERS, ...headers] : [...headers];
    if (closes) list.push('Connection', 'close');
    // Node would say that the connection is kept alive.
    else this.response.removeHeader('Connection');
    list.push('Date', dateNow());
    if (lengthBytes !== null) list.push('Content-Length', String(lengthBytes));
    this.response.writeHead(status, list);
  }

  #end(closes: boolean, last: string | Uint8Array): void {
    const { sending } = this.#connection;
    this.isAnswered = true;
    this.closes = closes;
    this.response.end(last);
    if (this.request.socket.writableLength > 0) sending.start();
    this.#owner?.onEnd(true);
  }
}

/** A header, in which case doesn't matter, and a target, as their bytes mean in UTF-8; Node has them in Latin-1. */
function readHead({ method = '', url = '', rawHeaders, httpVersion }: IncomingMessage): RequestHead {
  const headers: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    headers.push((rawHeaders[index] ?? '').toLowerCase(), inUtf8(rawHeaders[index + 1] ?? ''));
  }
  const target = inUtf8(url);
  const mark = target.indexOf('?');
  return {
    method,
    path: mark === -1 ? target : target.slice(0, mark),
    query: mark === -1 ? '' : target.slice(mark + 1),
    version: httpVersion === '1.0' ? '1.0' : '1.1',
    headers,
  };
}

const BEYOND_ASCII = /[\x80-\xff]/;

function inUtf8(latin1: string): string {
  return BEYOND_ASCII.test(latin1) ? Buffer.from(latin1, 'latin1').toString('utf8') : latin1;
}

let dateSecond = 0;
let dateText = '';

/** RFC 9110 section 5.6.7; made once a second. */
function dateNow(): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = new Date(second * 1000).toUTCString();
  }
  return dateText;
}
