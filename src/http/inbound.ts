// The bytes of one request as they arrive: kept and the socket paused while nobody receives them, dropped within bounds after an early answer.
import { DRAIN_BYTES, DRAIN_MS, DRAIN_SILENCE_MS, JSON_BODY_BYTES } from '../limits.js';
import { type CoarseTimer, startCoarseTimer } from '../waiting/coarse-timer.js';
import type { Holding } from './body-budget.js';
import type { Framing } from './framing.js';
import type { Turns } from './turns.js';
import type { Wire } from './wire.js';

export interface BodySink {
  /** The bytes are the sink's only until this returns. */
  chunk(bytes: Uint8Array): void;
  end(): void;
}

/** What becomes of bytes that arrive. */
type Mode =
  | { readonly kind: 'kept'; readonly kept: Uint8Array[] }
  | { readonly kind: 'received'; readonly sink: BodySink }
  | { readonly kind: 'drained'; readonly drained: (bytes: number) => void }
  | { readonly kind: 'dropped' };

/** The body of one request. Only the functions of this file write to it; there are functions instead of methods, since every request has one. */
export interface Inbound {
  readonly wire: Wire;
  readonly holding: Holding;
  /** There was no room for what is kept, and the body will never be whole. */
  readonly onLost: () => void;
  mode: Mode;
  /** The whole body has arrived. */
  isEnded: boolean;
  isPaused: boolean;
  /** The sink has no room. */
  isHeld: boolean;
  /** The wire is not touched any more: uWebSockets.js throws on a dead one. */
  isClosed: boolean;
  isLost: boolean;
  keptBytes: number;
  /** Of a drain. */
  timers: NodeJS.Timeout[];
  /** While a body comes, or of a watch over the client. */
  watch: CoarseTimer | null;
}

const DROPPED: Mode = { kind: 'dropped' };
/** Most answers are there before that, and are spared what it costs. */
const WATCHED_AFTER_MS = 100;
/**
 * uWebSockets.js ends a connection that is read and has been silent, or brings less than 16 KB/s of a body, for 8 to 12 s since it was last
 * resumed. How long a body may take is for its receiver to say, with an answer.
 */
const RESUMED_EVERY_MS = 4_000;

/** What is kept counts against the holding. To be called before the HTTP library's handler returns. */
export function openInbound(
  wire: Wire,
  { body, holding, turns }: { body: Framing['body']; holding: Holding; turns: Turns },
  onLost: () => void,
): Inbound {
  const inbound: Inbound = {
    wire,
    holding,
    onLost,
    mode: { kind: 'kept', kept: [] },
    // uWebSockets.js never calls the data handler for `Content-Length: 0` when the header came in two packets.
    isEnded: body.kind === 'none',
    isPaused: false,
    isHeld: false,
    isClosed: false,
    isLost: false,
    keptBytes: 0,
    timers: [],
    watch: null,
  };
  if (!inbound.isEnded) {
    resumeLater(inbound);
    wire.onData((bytes, isLast) => {
      turns.hear(wire);
      takeIn(inbound, bytes, isLast);
    });
  }
  return inbound;
}

function takeIn(inbound: Inbound, bytes: Uint8Array, isLast: boolean): void {
  const { mode } = inbound;
  inbound.isEnded = isLast;
  if (isLast) {
    inbound.watch?.stop();
    inbound.watch = null;
    // Until the answer is out: uWebSockets.js closes a connection whose next request arrives before that.
    pause(inbound);
  }
  switch (mode.kind) {
    case 'kept':
      pause(inbound);
      if (bytes.length > 0) keep(inbound, mode.kept, bytes);
      return;
    case 'received':
      if (bytes.length > 0) mode.sink.chunk(bytes);
      if (isLast) mode.sink.end();
      return;
    case 'drained':
      mode.drained(bytes.length);
      return;
    case 'dropped':
  }
}

function keep(inbound: Inbound, kept: Uint8Array[], bytes: Uint8Array): void {
  inbound.keptBytes += bytes.length;
  // A small body has come with its header, also that of an account: strangers must not be able to keep it out.
  if (inbound.holding.take(bytes.length, inbound.keptBytes > JSON_BODY_BYTES ? 'open' : 'whole')) {
    kept.push(bytes.slice());
    return;
  }
  inbound.isLost = true;
  forget(inbound);
  inbound.onLost();
}

function pause(inbound: Inbound): void {
  if (inbound.isClosed || inbound.isPaused) return;
  inbound.isPaused = true;
  inbound.wire.pause();
}

/** Lets the socket be read again: the next request may come. */
export function resumeReading(inbound: Inbound): void {
  if (inbound.isClosed || !inbound.isPaused) return;
  inbound.isPaused = false;
  inbound.wire.resume();
}

/** Lets the socket be read once the body is there, so that a client that leaves is noticed; a silent one is waited for, however long it takes. */
export function watchClient(inbound: Inbound): void {
  if (inbound.isClosed || !inbound.isEnded || inbound.watch !== null) return;
  inbound.watch = startCoarseTimer(WATCHED_AFTER_MS, () => {
    resumeReading(inbound);
    resumeLater(inbound);
  });
}

/** The socket is not read any more until the answer: a request that comes meanwhile is answered after this one. */
export function unwatchClient(inbound: Inbound): void {
  if (inbound.watch === null || !inbound.isEnded) return;
  inbound.watch.stop();
  inbound.watch = null;
  pause(inbound);
}

function resumeLater(inbound: Inbound): void {
  inbound.watch = startCoarseTimer(RESUMED_EVERY_MS, () => {
    if (!inbound.isPaused) {
      inbound.wire.pause();
      inbound.wire.resume();
    }
    resumeLater(inbound);
  });
}

function forget(inbound: Inbound): void {
  for (const timer of inbound.timers) clearTimeout(timer);
  inbound.timers = [];
  inbound.mode = DROPPED;
  inbound.holding.giveBack();
}

/** Delivers the body, from its first byte. */
export function receiveBody(inbound: Inbound, sink: BodySink): void {
  if (inbound.isLost) return;
  const { mode } = inbound;
  inbound.mode = { kind: 'received', sink };
  if (mode.kind === 'kept') for (const bytes of mode.kept) sink.chunk(bytes);
  inbound.holding.giveBack();
  if (inbound.isEnded) sink.end();
  else if (!inbound.isHeld) resumeReading(inbound);
}

/** Holds the socket back for a sink that has no room now; what was read from it already is still delivered. */
export function holdBody(inbound: Inbound): void {
  inbound.isHeld = true;
  pause(inbound);
}

/** Goes on after that. */
export function goOnWithBody(inbound: Inbound): void {
  inbound.isHeld = false;
  // The end of the body holds the socket as well, until the answer is out.
  if (!inbound.isEnded) resumeReading(inbound);
}

/** Drops what still arrives and calls back when the body ends, the client falls silent, or a bound is reached. */
export function drainBody(inbound: Inbound, done: () => void): void {
  forget(inbound);
  let left = DRAIN_BYTES;
  const finish = (): void => {
    forget(inbound);
    done();
  };
  const silence = setTimeout(finish, DRAIN_SILENCE_MS);
  inbound.timers = [silence, setTimeout(finish, DRAIN_MS)];
  inbound.mode = {
    kind: 'drained',
    drained(bytes) {
      left -= bytes;
      if (inbound.isEnded || left < 0) finish();
      else silence.refresh();
    },
  };
  resumeReading(inbound);
}

/** Forgets sink, kept bytes and timers; from here on the wire is not touched. */
export function closeInbound(inbound: Inbound): void {
  inbound.isClosed = true;
  inbound.watch?.stop();
  forget(inbound);
}
