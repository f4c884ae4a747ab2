// Whether the socket of a node:http connection is read: not while a body is held back or requests wait for their turn, and again while the connection ends.
import type { Socket } from 'node:net';

export interface Reading {
  /** The body of the active request is held back. */
  isHeldBack: boolean;
  /** The connection has had its last answer: what still comes is read, so that the client can read that answer. */
  readonly isEnding: boolean;
  /** Reads or stops, as it is to be now. */
  apply(): void;
  /** Nothing more is sent. */
  end(): void;
}

/** `isFull`: no further request is to be read. */
export function createReading(socket: Socket, isFull: () => boolean): Reading {
  let isEnding = false;

  const reads = (): boolean => isEnding || (!reading.isHeldBack && !isFull());

  function apply(): void {
    if (!reads()) socket.pause();
    else if (socket.isPaused()) socket.resume();
  }

  const reading: Reading = {
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
  // Node resumes when a request is whole, and starts to read when it hears of that, a tick later; it stops when it hears `pause`.
  socket.on('resume', () => {
    if (reads()) return;
    socket.pause();
    socket.emit('pause');
  });
  return reading;
}
