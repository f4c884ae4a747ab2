// A request of node:http as a wire, and the pace of its connection: its bytes come to Node's parser in small pieces, not while a body is held back or requests wait for
// their turn, and not at all while the connection ends; and what takes too long ends it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { DRAIN_BYTES } from '../../limits.js';
import { type AnswerHead, type RequestHead, USUAL_HEADERS, type Wire, type WireOwner, wholeText } from '../wire.js';

export interface WireConnection {
  readonly socket: Socket;
  readonly reading: NodeReading;
  readonly limit: TimeLimit;
  readonly sending: SendingLimit;
}

const NOTHING = Buffer.alloc(0);

export class NodeWire implements Wire {
  readonly head: RequestHead;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** All of the answer was handed over. */
  isAnswered = false;
  /** The system has all of it. */
  isSent = false;
  /** The connection ends with it. */
  closes = false;
  readonly #connection: WireConnection;
  readonly #address: string;
  #owner: WireOwner | null = null;
  /** Of the body, after the answer. */
  #discardedBytes = 0;
  #lastByte: Uint8Array = NOTHING;

  constructor(request: IncomingMessage, response: ServerResponse, connection: WireConnection) {
    this.head = readHead(request);
    this.request = request;
    this.response = response;
    this.#connection = connection;
    this.#address = request.socket.remoteAddress ?? '';
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

  answerAndAbort(head: AnswerHead, body: string): void {
    const { socket } = this.#connection;
    socket.write(`HTTP/1.1 ${wholeText(head, body)}`);
    socket.destroySoon();
  }

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

export interface NodeReading {
  /** The body of the active request is held back. */
  isHeldBack: boolean;
  /** The connection has had its last answer: what still comes is read, and dropped, so that the client can read that answer. */
  readonly isEnding: boolean;
  /** Reads or stops, as it is to be now. */
  apply(): void;
  /** Nothing more is sent. */
  end(): void;
}

/** Node's parser makes requests of all that it gets at once, of which 64 KB that lie behind each other are thousands. */
const PIECE_BYTES = 512;
/** Inside of a body. */
const BODY_PIECE_BYTES = 16 * 1024;

interface ReadingOptions {
  /** No further request is to be read. */
  readonly isFull: () => boolean;
  /** Of the active request; `whole`: what is behind it waits for its answer, though it is read, to notice a client that leaves. */
  readonly bodyState: () => 'none' | 'coming' | 'whole';
}

/** To be called when Node's HTTP server has the socket. */
export function createReading(socket: Socket, { isFull, bodyState }: ReadingOptions): NodeReading {
  const parsers = socket.listeners('data');
  let isEnding = false;
  let isParsing = false;
  /** Read, and not parsed. */
  let rest: Buffer | null = null;

  const takes = (): boolean => isEnding || (!reading.isHeldBack && !isFull());
  // With bytes that are not parsed the socket waits; what was read of a body that is held back doesn't wait with it, which would be 64 KB for each
  // connection that nobody counts. Node itself pauses a socket when a client doesn't take what it is sent.
  const parses = (): boolean =>
    !isEnding &&
    (bodyState() === 'coming' || (bodyState() === 'none' && takes())) &&
    Reflect.get(socket, '_paused') !== true;

  function parseRest(): void {
    if (isParsing) return;
    isParsing = true;
    while (rest !== null && parses()) {
      const piece: Buffer = rest.subarray(0, bodyState() === 'coming' ? BODY_PIECE_BYTES : PIECE_BYTES);
      rest = piece.length === rest.length ? null : rest.subarray(piece.length);
      for (const parse of parsers) Reflect.apply(parse, socket, [piece]);
    }
    isParsing = false;
  }

  function apply(): void {
    if (isEnding) rest = null;
    parseRest();
    if (rest !== null || !takes()) socket.pause();
    else if (socket.isPaused()) socket.resume();
  }

  const reading: NodeReading = {
    isHeldBack: false,
    get isEnding() {
      return isEnding;
    },
    apply,
    end() {
      isEnding = true;
      socket.end();
      apply();
    },
  };
  // From here on the parser gets what it is given here, and not by itself.
  socket.removeAllListeners('data');
  socket.on('data', (bytes: Buffer) => {
    if (isEnding) return;
    rest = rest === null ? bytes : Buffer.concat([rest, bytes]);
    apply();
  });
  // Node resumes when a request is whole, and starts to read when it hears of that, a tick later; it stops when it hears `pause`.
  socket.on('resume', () => {
    parseRest();
    if (rest === null && takes()) return;
    socket.pause();
    socket.emit('pause');
  });
  return reading;
}

/** Without a whole header, as under uWebSockets.js. */
const HEADER_MS = 10_000;
/** The rest of a body that has its answer must bring so much in so long, as under uWebSockets.js. Before its answer, who receives it says how long it may take. */
const REST_MS = 10_000;
const REST_BYTES = 160 * 1024;
/** From the last byte that was sent to the end: with bytes unread, the system takes the answer from a client that hasn't read it. */
const LINGER_MS = 1_000;

/** A client must take something of what it is sent in so long. */
const SENDING_MS = 10_000;

export type TimeLimit = ReturnType<typeof createTimeLimit>;

export function createTimeLimit() {
  let dueMs = performance.now() + HEADER_MS;
  let receivedBytes = 0;

  function startRest(): void {
    receivedBytes = 0;
    dueMs = performance.now() + REST_MS;
  }

  return {
    isOver: (nowMs: number): boolean => nowMs >= dueMs,
    /** For the next header. */
    startHeader(): void {
      dueMs = performance.now() + HEADER_MS;
    },
    /** For the rest of a body. */
    startRest,
    /** So much of it has come. */
    received(bytes: number): void {
      receivedBytes += bytes;
      if (receivedBytes >= REST_BYTES) startRest();
    },
    startLinger(): void {
      dueMs = performance.now() + LINGER_MS;
    },
    /** There is no limit now. */
    stop(): void {
      dueMs = Number.POSITIVE_INFINITY;
    },
  };
}

/** Of a client that doesn't take what it is sent. The socket's own timeout begins anew also when the client sends something. */
export class SendingLimit {
  readonly #socket: Socket;
  #isStuck = false;
  #taken = 0;
  #sinceMs = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  start(): void {
    if (this.#isStuck) return;
    this.#isStuck = true;
    this.#taken = this.#takenNow();
    this.#sinceMs = performance.now();
  }

  stop(): void {
    this.#isStuck = false;
  }

  isOver(nowMs: number): boolean {
    if (!this.#isStuck) return false;
    const taken = this.#takenNow();
    if (taken !== this.#taken) {
      this.#taken = taken;
      this.#sinceMs = nowMs;
    }
    return nowMs - this.#sinceMs >= SENDING_MS;
  }

  /** Bytes that the system has taken; of a write under way Node's handle alone knows it. */
  #takenNow(): number {
    const handle: unknown = Reflect.get(this.#socket, '_handle');
    const queued: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'writeQueueSize') : 0;
    return this.#socket.bytesWritten - (typeof queued === 'number' ? queued : 0);
  }
}
