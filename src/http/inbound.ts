// The bytes of one request as they arrive: kept and the socket paused while nobody receives them, dropped within bounds after an early answer.
import type { HttpResponse } from 'uws-pack';
import { DRAIN_BYTES, DRAIN_MS, DRAIN_SILENCE_MS, JSON_BODY_BYTES } from '../limits.js';
import type { Holding } from './body-budget.js';
import type { Framing } from './framing.js';

export interface BodySink {
  /** The bytes are the sink's only until this returns. */
  chunk(bytes: Uint8Array): void;
  end(): void;
}

/** Methods alone: a getter would give each of them a shape of its own, and V8 would look everything up in it by name. */
export interface Inbound {
  /** The whole body has arrived. */
  isEnded(): boolean;
  /** Delivers the body, from its first byte. */
  receive(sink: BodySink): void;
  /** Holds the socket back for a sink that has no room now; what was read from it already is still delivered. */
  pauseBody(): void;
  /** Goes on after that. */
  resumeBody(): void;
  /** Drops what still arrives and calls back when the body ends, the client falls silent, or a bound is reached. */
  drain(done: () => void): void;
  /** Forgets sink, kept bytes and timers; from here on the response is not touched: uWebSockets.js throws on a dead one. */
  close(): void;
  /** Lets the socket be read again: the next request may come. */
  resume(): void;
}

/** What is kept counts against the holding. `onLost`: there was no room for it, and the body will never be whole. */
export function openInbound(
  response: HttpResponse,
  body: Framing['body'],
  holding: Holding,
  onLost: () => void,
): Inbound {
  // uWebSockets.js never calls the data handler for `Content-Length: 0` when the header came in two packets.
  let ended = body.kind === 'none';
  let paused = false;
  let held = false;
  let closed = false;
  let isLost = false;
  let keptBytes = 0;
  let mode: { sink: BodySink } | { kept: Uint8Array[] } | { drained: (bytes: number) => void } | null = { kept: [] };
  let timers: NodeJS.Timeout[] = [];

  function pause(): void {
    if (closed || paused) return;
    paused = true;
    response.pause();
  }

  function resume(): void {
    if (closed || !paused) return;
    paused = false;
    response.resume();
  }

  function forget(): void {
    for (const timer of timers) clearTimeout(timer);
    timers = [];
    mode = null;
    holding.giveBack();
  }

  function keep(kept: Uint8Array[], bytes: Uint8Array): void {
    keptBytes += bytes.length;
    // A small body has come with its header, also that of an account: strangers must not be able to keep it out.
    if (holding.take(bytes.length, keptBytes > JSON_BODY_BYTES ? 'open' : 'whole')) {
      kept.push(bytes.slice());
      return;
    }
    isLost = true;
    forget();
    onLost();
  }

  function onData(data: ArrayBuffer, isLast: boolean): void {
    const bytes = new Uint8Array(data);
    ended = isLast;
    // Until the answer is out: uWebSockets.js closes a connection whose next request arrives before that.
    if (isLast) pause();
    if (mode === null) return;
    if ('drained' in mode) {
      mode.drained(bytes.length);
    } else if ('kept' in mode) {
      pause();
      if (bytes.length > 0) keep(mode.kept, bytes);
    } else {
      const { sink } = mode;
      if (bytes.length > 0) sink.chunk(bytes);
      if (isLast) sink.end();
    }
  }

  if (!ended) response.onData(onData);

  return {
    isEnded: () => ended,
    receive(sink) {
      if (isLost) return;
      const kept = mode !== null && 'kept' in mode ? mode.kept : [];
      mode = { sink };
      for (const bytes of kept) sink.chunk(bytes);
      holding.giveBack();
      if (ended) sink.end();
      else if (!held) resume();
    },
    pauseBody() {
      held = true;
      pause();
    },
    resumeBody() {
      held = false;
      // The end of the body holds the socket as well, until the answer is out.
      if (!ended) resume();
    },
    drain(done) {
      forget();
      let left = DRAIN_BYTES;
      const finish = (): void => {
        forget();
        done();
      };
      const silence = setTimeout(finish, DRAIN_SILENCE_MS);
      timers = [silence, setTimeout(finish, DRAIN_MS)];
      mode = {
        drained: (bytes) => {
          left -= bytes;
          if (ended || left < 0) finish();
          else silence.refresh();
        },
      };
      resume();
    },
    close() {
      closed = true;
      forget();
    },
    resume,
  };
}
