// Requests to services that the operator has named, through the undici that the package brings, which is loaded nowhere else; and what a command asks a server on this machine.
import { get, type IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import { json } from 'node:stream/consumers';

const load = createRequire(import.meta.url);

/** A seventh of what a server process reads at its start, and most never need it. What import() can't read once it never reads again. */
export const undici = (): typeof import('undici') => load('undici');

/**
 * As the global `fetch`, for libraries that take one; the body of the answer is read before it resolves, so that the signal bounds
 * all of it. The global one won't do: importing undici makes its dispatcher that of Node's older fetch as well, and the two don't
 * agree on what a request is. No proxy is taken from the environment.
 */
export async function fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const { method = 'GET', body = null, signal = null, redirect = 'follow' } = init;
  if (body !== null && typeof body !== 'string') throw new TypeError('Only text is sent');
  const { fetch: send } = undici();
  const headers = Object.fromEntries(new Headers(init.headers));
  const answer = await send(input instanceof Request ? input.url : input, { method, body, signal, redirect, headers });
  const content = await answer.arrayBuffer();
  const isEmpty = content.byteLength === 0;
  return new Response(isEmpty ? null : content, { status: answer.status, headers: Object.fromEntries(answer.headers) });
}

/** What our server at that http address says, as JSON. By no fetch: that refuses ports such as 10080, where a server may well listen. */
export async function askServer(url: URL, timeoutMs: number): Promise<unknown> {
  const signal = AbortSignal.timeout(timeoutMs);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { signal, agent: false }, resolve).once('error', reject);
  });
  return await json(answer);
}
