// How the bytes of a node:http connection come to Node's parser: in small pieces, not while a body is held back or requests wait for their turn, and
// not at all while the connection ends.
import type { Socket } from 'node:net';

export interface Reading {
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

export interface ReadingOptions {
  /** No further request is to be read. */
  readonly isFull: () => boolean;
  /** Of the active request; `whole`: what is behind it waits for its answer, though it is read, to notice a client that leaves. */
  readonly bodyState: () => 'none' | 'coming' | 'whole';
}

/** To be called when Node's HTTP server has the socket. */
export function createReading(socket: Socket, { isFull, bodyState }: ReadingOptions): Reading {
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
