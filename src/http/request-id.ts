// The name of one request in logs and in its answer.
import { randomId } from '../ids.js';

/** What is taken over: a token that is safe in logs and headers. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The client's own, otherwise a new one. */
export function requestIdOf(headers: ReadonlyMap<string, string>): string {
  const claimed = headers.get('x-request-id');
  return claimed !== undefined && REQUEST_ID.test(claimed) ? claimed : randomId();
}
