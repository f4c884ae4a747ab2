// What a protocol hands to the scan: whom it is for, and a content or where to find it. The scan knows nothing else of the protocol.
import type { Received } from './reception.js';

/** One request for a scan. */
export interface Submission {
  /** Whose it is (a user's id), known before the first byte: memory, queue and threads are shared between accounts. */
  readonly account: string;
  /** For the log. */
  readonly requestId: string;
  /** Receives what was sent into lent memory. To be called once; calls back once. */
  receive(onReceived: (received: Sent | Unsent) => void): void;
  /** Aborts when the client has left. Costs some microseconds when it is first asked for. */
  signal(): AbortSignal;
  /** For less: calls the listener, with a reason, when the client has left, until it is taken off with null. One at a time. */
  onGone(listener: ((reason: Error) => void) | null): void;
  /** The client has left: nobody reads the answer. */
  isGone(): boolean;
}

/** All of a request that can be served: a file as a whole, or a URL. */
export type Sent =
  | ({ readonly kind: 'file' /** As shown: see baseName. */; readonly filename: string } & Received)
  | { readonly kind: 'url'; readonly url: string };

/** There is nothing to scan. */
export interface Unsent {
  readonly kind: 'unsent';
  readonly error: unknown;
  /** As far as it is known, otherwise empty. */
  readonly filename: string;
  /** The request was there as a whole. */
  readonly isWhole: boolean;
}
