// A body that is made while it is sent: piece after piece, the next one only when the client has taken the one before.
import type { HttpResponse } from 'uws-pack';

export interface Outbound {
  /** Pieces that can't be made end the connection, so that nobody takes what was sent for the whole; their maker says why. */
  send(pieces: AsyncIterable<string>): void;
  /** The client is gone, or everything is sent: the response is not touched any more. */
  close(): void;
}

export interface OutboundOptions {
  /** Writes status and headers. */
  readonly head: () => void;
  /** Whether the connection ends with the answer. */
  readonly closes: boolean;
  /** Called when the last piece is out. */
  readonly done: () => void;
}

export function openOutbound(response: HttpResponse, { head, closes, done }: OutboundOptions): Outbound {
  let isClosed = false;
  let wake: () => void = () => undefined;

  /** Resolves when the socket has room. uWebSockets.js ends a connection that takes nothing for ten seconds. */
  function room(): Promise<void> {
    return new Promise((resolve) => {
      wake = resolve;
    });
  }

  async function sendAll(pieces: AsyncIterable<string>): Promise<void> {
    response.onWritable(() => {
      wake();
      return true;
    });
    response.cork(head);
    for await (const piece of pieces) {
      if (isClosed) return;
      let hasRoom = true;
      response.cork(() => {
        hasRoom = piece === '' || response.write(piece);
      });
      if (!hasRoom && !isClosed) await room();
      if (isClosed) return;
    }
    if (isClosed) return;
    response.cork(() => response.end(undefined, closes));
    done();
  }

  return {
    send(pieces) {
      sendAll(pieces).catch(() => {
        if (!isClosed) response.close();
      });
    },
    close() {
      isClosed = true;
      wake();
    },
  };
}

export function isPieces(body: string | Uint8Array | AsyncIterable<string>): body is AsyncIterable<string> {
  return typeof body === 'object' && Symbol.asyncIterator in body;
}
