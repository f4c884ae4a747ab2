// A request of uWebSockets.js as a wire.
import { STATUS_CODES } from 'node:http';
import type { AnswerHead, PieceWriter, RequestHead, Wire } from '../wire.js';
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
    answer(head, body, closes) {
      response.cork(() => {
        writeHead(response, head);
        response.end(body, closes);
      });
    },
    answerWithoutBody(head, lengthBytes, closes) {
      response.cork(() => {
        writeHead(response, head);
        // With a length of its own the library never ends the answer, and drops what is asked next over the connection.
        if (closes) response.endWithoutBody(lengthBytes ?? 0, true);
        else {
          if (lengthBytes !== null) response.writeHeader('Content-Length', String(lengthBytes));
          response.endWithoutBody();
        }
      });
    },
    answerFromMemory(head, body, done) {
      answerFromMemory(response, { head, body, done });
    },
    answerButOneByte(head, body) {
      response.cork(() => {
        writeHead(response, head);
        response.tryEnd(body.subarray(0, -1), body.length);
      });
      return () => {
        response.cork(() => response.tryEnd(body.subarray(-1), body.length));
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

interface AnswerFromMemory {
  readonly head: AnswerHead;
  readonly body: Uint8Array;
  readonly done: () => void;
}

function answerFromMemory(response: UwsResponse, { head, body, done }: AnswerFromMemory): void {
  let isWhole = false;
  response.cork(() => {
    writeHead(response, head);
    if (body.length > 0) [, isWhole] = response.tryEnd(body, body.length);
    else isWhole = response.endWithoutBody() !== null;
  });
  if (isWhole) {
    done();
    return;
  }
  response.onWritable((offset) => {
    const [hasRoom, isLast] = response.tryEnd(body.subarray(offset), body.length);
    if (isLast) done();
    return hasRoom;
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
