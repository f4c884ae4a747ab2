// The requests of one connection (RFC 9112 section 9.3): one is active, a few wait for its end, and what comes behind the last one isn't served.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NodeWire } from './wire.js';

/** Requests without a body that wait for their turn: as many as fit into a piece that the parser gets at once (reading.ts), and some. */
const WAITING_MAX = 32;

export interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export interface Pipeline {
  active: NodeWire | null;
  /** Nothing that comes behind the active request is served. */
  isLast: boolean;
  /** No further request is to be read. */
  readonly isFull: boolean;
  /** Comes behind the active one. */
  add(request: IncomingMessage, response: ServerResponse): void;
  next(): Waiting | undefined;
}

export function createPipeline(): Pipeline {
  const waiting: Waiting[] = [];
  const pipeline: Pipeline = {
    active: null,
    isLast: false,
    get isFull() {
      return waiting.length > 0 || pipeline.isLast;
    },
    add(request, response) {
      // What isn't idempotent must not be sent before the answer (section 9.3.2); nor is there memory for its body. An active request that has
      // its answer was refused early: its last bytes came in one packet with this one, and Node says a tick later that it is whole.
      const hasBody = 'content-length' in request.headers || 'transfer-encoding' in request.headers;
      const isEarly = hasBody && pipeline.active?.isSent !== true;
      if (isEarly || waiting.length >= WAITING_MAX) pipeline.isLast = true;
      else waiting.push({ request, response });
    },
    next: () => waiting.shift(),
  };
  return pipeline;
}
