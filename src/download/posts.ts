// Messages to receivers that clients have named: sent through the same guard as downloads, once, to the very place; of the answer the status alone.
import { Failure } from '../errors.js';
import { startDeadline } from '../waiting/deadline.js';
import { allowed, type DiallingOptions, dial } from './dialling.js';
import { type OriginMessage, TOO_SLOW } from './origin.js';

export interface Posts {
  /** What can be said of a URL before its host is resolved. Throws Failure `urlRejected`. */
  check(url: string): void;
  /**
   * Resolves with the status of the answer, whatever it is: a redirect isn't followed. Rejects with Failure `urlRejected` or `downloadFailed`, whose
   * detail says why there is none.
   */
  send(url: string, message: OriginMessage, timeoutMs: number): Promise<number>;
}

export function createPosts(options: DiallingOptions): Posts {
  const { guard } = options;
  return {
    check: (text) => void allowed(guard.checkUrl(text)),
    async send(text, message, timeoutMs) {
      const url = allowed(guard.checkUrl(text));
      const late = new Failure('downloadFailed', TOO_SLOW);
      const deadline = startDeadline(timeoutMs, new AbortController().signal, late);
      deadline.start();
      try {
        const response = await dial(url, deadline.signal, options, message);
        response.close();
        return response.status;
      } finally {
        deadline.end();
      }
    },
  };
}
