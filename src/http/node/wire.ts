// A request of node:http as a wire.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AnswerHead, PieceWriter, RequestHead, Wire } from '../wire.js';

/** What a wire wants of its connection. */
export interface WireOwner {
  pause(): void;
  resume(): void;
  /** So many bytes of the body have come. */
  received(bytes: number): void;
  /** All of the answer was handed over, and `closes` says whether the connection ends with it. */
  answered(closes: boolean): void;
  /** The client takes what it is sent, or doesn't: then a limit of time begins. */
  sending(isStuck: boolean): void;
  abort(): void;
}

export interface NodeWire extends Wire {
  /** The connection has ended. */
  aborted(): void;
}

const NOTHING = new Uint8Array();

export function openNodeWire(request: IncomingMessage, response: ServerResponse, owner: WireOwner): NodeWire {
  const address = request.socket.remoteAddress ?? '';
  let onAborted: () => void = () => undefined;
  // Reading is for the owner to stop and to begin: Node would go on by itself until its buffers are full.
  request._read = () => undefined;
  // From here on what arrives goes to the listener at once, and nothing is buffered.
  request.read(0);

  /** Headers in the order in which uWebSockets.js has them. */
  function writeHead({ status, headers }: AnswerHead, closes: boolean, lengthBytes: number | null): void {
    const list = headers.flat();
    if (closes) list.push('Connection', 'close');
    // Node would say that the connection is kept alive.
    else response.removeHeader('Connection');
    list.push('Date', dateNow());
    if (lengthBytes !== null) list.push('Content-Length', String(lengthBytes));
    response.writeHead(status, list);
  }

  function end(closes: boolean, last: string | Uint8Array = NOTHING): void {
    owner.answered(closes);
    response.end(last);
    if (request.socket.writableLength > 0) owner.sending(true);
  }

  return {
    head: readHead(request),
    remoteAddress: () => address,
    onAborted(listener) {
      onAborted = listener;
    },
    onData(listener) {
      request.on('data', (bytes: Uint8Array) => {
        owner.received(bytes.length);
        listener(bytes, false);
      });
      request.once('end', () => listener(NOTHING, true));
    },
    pause: owner.pause,
    resume: owner.resume,
    answer(head, body, { closes, done }) {
      writeHead(head, closes, Buffer.byteLength(body));
      end(closes, body);
      done();
    },
    answerWithoutBody(head, lengthBytes, { closes, done }) {
      writeHead(head, closes, lengthBytes);
      end(closes);
      done();
    },
    answerButOneByte(head, body) {
      writeHead(head, false, body.length);
      response.write(body.subarray(0, -1));
      return (done) => {
        end(false, body.subarray(-1));
        done();
      };
    },
    answerInPieces(head, closes): PieceWriter {
      writeHead(head, closes, null);
      return {
        write(piece) {
          const hasRoom = response.write(piece);
          if (!hasRoom) owner.sending(true);
          return hasRoom;
        },
        onRoom(listener) {
          response.on('drain', () => {
            owner.sending(false);
            listener();
          });
        },
        end: () => end(closes),
      };
    },
    abort: owner.abort,
    aborted: () => onAborted(),
  };
}

/** A header, in which case doesn't matter, and a target, as their bytes mean in UTF-8; Node has them in Latin-1. */
function readHead({ method = '', url = '', rawHeaders, httpVersion }: IncomingMessage): RequestHead {
  const headers: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    headers.push([(rawHeaders[index] ?? '').toLowerCase(), inUtf8(rawHeaders[index + 1] ?? '')]);
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

let dateMs = 0;
let dateText = '';

/** RFC 9110 section 5.6.7; made once a second. */
function dateNow(): string {
  const nowMs = Date.now();
  if (nowMs - dateMs >= 1000) {
    dateMs = nowMs - (nowMs % 1000);
    dateText = new Date(nowMs).toUTCString();
  }
  return dateText;
}
