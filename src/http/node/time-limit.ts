// The time that a client of node:http has for what comes next: a header, the rest of a body that was answered early, or to read the end of what it was sent.
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';

/** Without a whole header, as under uWebSockets.js. */
const HEADER_MS = 10_000;
/** The rest of a body that has its answer must bring so much in so long, as under uWebSockets.js. Before its answer, who receives it says how long it may take. */
const REST_MS = 10_000;
const REST_BYTES = 160 * 1024;
/** From the last byte that was sent to the end: with bytes unread, the system takes the answer from a client that hasn't read it. */
const LINGER_MS = 1_000;

/** A client must take something of what it is sent in so long. */
const SENDING_MS = 10_000;

export interface TimeLimit {
  isOver(nowMs: number): boolean;
  /** For the next header. */
  startHeader(): void;
  /** For the rest of a body. */
  startRest(): void;
  /** So much of it has come. */
  received(bytes: number): void;
  startLinger(): void;
  /** There is no limit now. */
  stop(): void;
}

export function createTimeLimit(): TimeLimit {
  let dueMs = performance.now() + HEADER_MS;
  let receivedBytes = 0;

  function startRest(): void {
    receivedBytes = 0;
    dueMs = performance.now() + REST_MS;
  }

  return {
    isOver: (nowMs) => nowMs >= dueMs,
    startHeader() {
      dueMs = performance.now() + HEADER_MS;
    },
    startRest,
    received(bytes) {
      receivedBytes += bytes;
      if (receivedBytes >= REST_BYTES) startRest();
    },
    startLinger() {
      dueMs = performance.now() + LINGER_MS;
    },
    stop() {
      dueMs = Number.POSITIVE_INFINITY;
    },
  };
}

/** Of a client that doesn't take what it is sent. The socket's own timeout begins anew also when the client sends something. */
export class SendingLimit {
  readonly #socket: Socket;
  #isStuck = false;
  #taken = 0;
  #sinceMs = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  start(): void {
    if (this.#isStuck) return;
    this.#isStuck = true;
    this.#taken = this.#takenNow();
    this.#sinceMs = performance.now();
  }

  stop(): void {
    this.#isStuck = false;
  }

  isOver(nowMs: number): boolean {
    if (!this.#isStuck) return false;
    const taken = this.#takenNow();
    if (taken !== this.#taken) {
      this.#taken = taken;
      this.#sinceMs = nowMs;
    }
    return nowMs - this.#sinceMs >= SENDING_MS;
  }

  /** Bytes that the system has taken; of a write under way Node's handle alone knows it. */
  #takenNow(): number {
    const handle: unknown = Reflect.get(this.#socket, '_handle');
    const queued: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'writeQueueSize') : 0;
    return this.#socket.bytesWritten - (typeof queued === 'number' ? queued : 0);
  }
}
