// A request to a host that somebody else has named: its addresses resolved, all of them checked, and exactly those dialled.
import { isIP } from 'node:net';
import { Failure } from '../errors.js';
import { startDeadline } from '../waiting/deadline.js';
import type { Guard, GuardedUrl } from './guard.js';
import { type OriginMessage, type OriginOptions, type OriginResponse, requestOrigin, TOO_SLOW } from './origin.js';
import type { Resolve } from './resolve.js';

export interface DiallingOptions extends OriginOptions {
  readonly guard: Guard;
  readonly resolve: Resolve;
}

/** Throws Failure `urlRejected`. */
export function allowed(checked: GuardedUrl): URL {
  if (!checked.allowed) throw new Failure('urlRejected', checked.reason);
  return checked.url;
}

/**
 * A GET, or the POST of a message. The URL has passed the guard as a text. Rejects with Failure `urlRejected` or `downloadFailed`, with the signal's
 * reason when it aborts.
 */
export async function dial(
  url: URL,
  signal: AbortSignal,
  options: DiallingOptions,
  message: OriginMessage | null = null,
): Promise<OriginResponse> {
  const addresses = await checkedAddresses(url, signal, options);
  return await requestOrigin({ url, addresses, signal, message }, options);
}

/** The addresses of a URL's host, all of them checked: one that may not be dialled spoils the host. */
async function checkedAddresses(
  { hostname }: URL,
  signal: AbortSignal,
  { guard, resolve }: DiallingOptions,
): Promise<readonly string[]> {
  // An address was checked with the URL, and is checked again with all others.
  const bare = hostname.replace(/^\[(.*)\]$/, '$1');
  const addresses = isIP(bare) === 0 ? await resolve(hostname, signal) : [bare];
  for (const address of addresses) {
    const checked = guard.checkAddress(address);
    if (!checked.allowed) throw new Failure('urlRejected', checked.reason);
  }
  return addresses;
}

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
