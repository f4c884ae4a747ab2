// A bound on requests of people who are not signed in yet: a client that guesses tokens and passwords fills this, not Postgres.
import { Unavailable } from '../errors.js';
import { createLimiter } from '../waiting/limiter.js';

/** Of one process, at one time. */
const REQUESTS_MAX = 256;

/** Returns what runs such a request; it throws Failure('unavailable') when there are too many. */
export function createAnonymousLimiter(): <T>(request: () => Promise<T>) => Promise<T> {
  const limiter = createLimiter({ running: REQUESTS_MAX, waiting: 0 });
  return (request) => limiter.run(request, () => new Unavailable('signInsBusy'));
}
