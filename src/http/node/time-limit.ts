// The time that a client of node:http has for what comes next: a header, the next part of a body, or to read the end of what it was sent.
import { performance } from 'node:perf_hooks';

/** Without a whole header, as under uWebSockets.js. */
const HEADER_MS = 10_000;
/** A body must bring so much in so long, as under uWebSockets.js; what has arrived and waits for us doesn't count. */
const BODY_MS = 10_000;
const BODY_BYTES = 160 * 1024;
/** From the last byte that was sent to the end: with bytes unread, the system takes the answer from a client that hasn't read it. */
const LINGER_MS = 1_000;

export interface TimeLimit {
  isOver(nowMs: number): boolean;
  /** For the next header. */
  startHeader(): void;
  /** For the next part of a body; `isHeldBack`: it waits for us, and has as long as that takes. */
  startBody(isHeldBack: boolean): void;
  /** So much of a body has come. */
  received(bytes: number, isHeldBack: boolean): void;
  startLinger(): void;
  /** There is no limit now. */
  stop(): void;
}

export function createTimeLimit(): TimeLimit {
  let dueMs = performance.now() + HEADER_MS;
  let receivedBytes = 0;

  function startBody(isHeldBack: boolean): void {
    receivedBytes = 0;
    if (!isHeldBack) dueMs = performance.now() + BODY_MS;
  }

  return {
    isOver: (nowMs) => nowMs >= dueMs,
    startHeader() {
      dueMs = performance.now() + HEADER_MS;
    },
    startBody,
    received(bytes, isHeldBack) {
      receivedBytes += bytes;
      if (receivedBytes >= BODY_BYTES) startBody(isHeldBack);
    },
    startLinger() {
      dueMs = performance.now() + LINGER_MS;
    },
    stop() {
      dueMs = Number.POSITIVE_INFINITY;
    },
  };
}
