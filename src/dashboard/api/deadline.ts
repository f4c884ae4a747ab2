// An end for requests that nobody answers: a line that broke in silence, or a server that hangs, is known to no browser for many minutes.

/** Of what changes nothing, and may be asked again: longer than the service takes for any such answer. */
export const READ_MS = 30_000;
/** Of what changes something: longer than the service waits for Stripe, for mail and for webhooks. */
export const CHANGE_MS = 60_000;

/** Aborts with `signal`, also where that has happened before, and when the time is over. */
export function deadline(ms: number, signal?: AbortSignal): AbortSignal {
  const end = new AbortController();
  const pass = (): void => end.abort(signal?.reason);
  if (signal?.aborted) pass();
  window.setTimeout(() => end.abort(), ms);
  signal?.addEventListener('abort', pass);
  return end.signal;
}
