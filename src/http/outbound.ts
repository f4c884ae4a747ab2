// A body that is made while it is sent: piece after piece, the next one only when the client has taken the one before.
import type { AnswerHead, Wire } from './wire.js';

export interface Outbound {
  /** Pieces that can't be made end the connection, so that nobody takes what was sent for the whole; their maker says why. */
  send(pieces: AsyncIterable<string>): void;
  /** The client is gone, or everything is sent: the wire is not touched any more. */
  close(): void;
}

export interface OutboundOptions {
  readonly head: AnswerHead;
  /** Whether the connection ends with the answer. */
  readonly closes: boolean;
  /** Called when the last piece is out. */
  readonly done: () => void;
}

export function openOutbound(wire: Wire, { head, closes, done }: OutboundOptions): Outbound {
  let isClosed = false;
  let wake: () => void = () => undefined;

  /** Resolves when the socket has room. Both libraries end a connection that takes nothing for ten seconds. */
  function room(): Promise<void> {
    return new Promise((resolve) => {
      wake = resolve;
    });
  }

  async function sendAll(pieces: AsyncIterable<string>): Promise<void> {
    const writer = wire.answerInPieces(head, closes);
    writer.onRoom(() => wake());
    for await (const piece of pieces) {
      if (isClosed) return;
      const hasRoom = piece === '' || writer.write(piece);
      if (!hasRoom && !isClosed) await room();
      if (isClosed) return;
    }
    if (isClosed) return;
    writer.end();
    done();
  }

  return {
    send(pieces) {
      sendAll(pieces).catch(() => {
        if (!isClosed) wire.abort();
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
