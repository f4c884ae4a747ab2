// An end for requests that nobody answers: a line that broke in silence, or a server that hangs, is known to no browser for many minutes.

/** Of what changes nothing, and may be asked again: longer than the service takes for any such answer. */
export const READ_MS = 30_000;

/** Aborts with `signal`, and when the time is over. */
export function deadline(ms: number, signal?: AbortSignal): AbortSignal {
  const end = new AbortController();
  window.setTimeout(() => end.abort(), ms);
  signal?.addEventListener('abort', () => end.abort(signal.reason));
  return end.signal;
}
