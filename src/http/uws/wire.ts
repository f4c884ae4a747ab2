// A request of uWebSockets.js as a wire.
import { STATUS_CODES } from 'node:http';
import type { AnswerHead, Ending, PieceWriter, RequestHead, Wire } from '../wire.js';
import type { UwsRequest, UwsResponse } from './api.js';

/** To be called before the library's handler returns. */
export function openUwsWire(response: UwsResponse, request: UwsRequest): Wire {
  return {
    head: headOf(request),
    remoteAddress: () => addressOf(response),
    onAborted(listener) {
      response.onAborted(listener);
    },
    onData(listener) {
      response.onData((chunk, isLast) => listener(new Uint8Array(chunk), isLast));
    },
    pause() {
      response.pause();
    },
    resume() {
      response.resume();
    },
    answer(head, body, { closes, done }) {
      if (closes) {
        response.cork(() => {
          writeHead(response, head);
          response.end(body, true);
        });
        done();
        return;
      }
      const totalBytes = Buffer.byteLength(body);
      let isWhole = false;
      response.cork(() => {
        writeHead(response, head);
        [, isWhole] = response.tryEnd(body, totalBytes);
      });
      if (isWhole) done();
      else sendRest(response, typeof body === 'string' ? Buffer.from(body) : body, done);
    },
    answerWithoutBody(head, lengthBytes, ending) {
      answerWithoutBody(response, { head, lengthBytes, ending });
    },
    answerButOneByte(head, body) {
      response.cork(() => {
        writeHead(response, head);
        response.tryEnd(body.subarray(0, -1), body.length);
      });
      return (done) => {
        let isWhole = false;
        response.cork(() => {
          [, isWhole] = response.tryEnd(body.subarray(response.getWriteOffset()), body.length);
        });
        if (isWhole) done();
        else sendRest(response, body, done);
      };
    },
    answerInPieces(head, closes): PieceWriter {
      response.cork(() => writeHead(response, head));
      return {
        write(piece) {
          let hasRoom = true;
          response.cork(() => {
            hasRoom = response.write(piece);
          });
          return hasRoom;
        },
        onRoom(listener) {
          response.onWritable(() => {
            listener();
            return true;
          });
        },
        end() {
          response.cork(() => response.end(undefined, closes));
        },
      };
    },
    abort() {
      response.close();
    },
  };
}

function writeHead(response: UwsResponse, { status, headers }: AnswerHead): void {
  response.writeStatus(status === 200 ? '200 OK' : `${status} ${STATUS_CODES[status] ?? 'Unknown'}`);
  for (const [name, value] of headers) response.writeHeader(name, value);
}

/** Goes on as the client takes it; the library ends a connection that takes nothing for ten seconds. */
function sendRest(response: UwsResponse, body: Uint8Array, done: () => void): void {
  response.onWritable((offset) => {
    const [hasRoom, isLast] = response.tryEnd(body.subarray(offset), body.length);
    if (isLast) done();
    return hasRoom;
  });
}

interface Bodiless {
  readonly head: AnswerHead;
  readonly lengthBytes: number | null;
  readonly ending: Ending;
}

const NOTHING = new Uint8Array();

function answerWithoutBody(response: UwsResponse, { head, lengthBytes, ending }: Bodiless): void {
  const { closes, done } = ending;
  let isTaken = true;
  response.cork(() => {
    writeHead(response, head);
    // With a length of its own the library never ends the answer, and drops what is asked next over the connection.
    if (closes) response.endWithoutBody(lengthBytes ?? 0, true);
    else if (lengthBytes === null) response.endWithoutBody();
    else {
      // Only this says whether the client has taken what was sent before.
      const [hasRoom, isOver] = response.tryEnd(NOTHING, lengthBytes);
      isTaken = hasRoom || isOver;
      if (isTaken && !isOver) response.end();
    }
  });
  if (isTaken) {
    done();
    return;
  }
  response.onWritable(() => {
    const [hasRoom] = response.tryEnd(NOTHING, lengthBytes ?? 0);
    if (!hasRoom) return false;
    response.end();
    done();
    return true;
  });
}

/** HTTP/1.0 never gets here. */
function headOf(request: UwsRequest): RequestHead {
  const headers: [string, string][] = [];
  request.forEach((name, value) => {
    headers.push([name, value]);
  });
  return {
    method: request.getCaseSensitiveMethod(),
    path: request.getUrl(),
    query: request.getQuery() ?? '',
    version: '1.1',
    headers,
  };
}

export function addressOf(response: UwsResponse): string {
  return Buffer.from(response.getRemoteAddressAsText()).toString('latin1');
}
