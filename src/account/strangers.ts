// The work of people who aren't signed in, with a bound: whoever guesses tokens and passwords fills this, not Postgres.
import { Failure } from '../errors.js';
import { guarded } from '../store/guard.js';

/** Of one process, at one time. */
const STRANGERS_MAX = 256;
const BUSY_RETRY_SECONDS = 1;

/** Returns what runs such work under the store's guard; it throws Failure('unavailable') when there is too much of it. */
export function createStrangers(): <T>(work: () => Promise<T>) => Promise<T> {
  let running = 0;
  return async (work) => {
    if (running >= STRANGERS_MAX) throw new Failure('unavailable', 'Too many sign-ins at once', BUSY_RETRY_SECONDS);
    running += 1;
    // Not freed by the timeout: a Postgres that hangs must not be given more and more to do.
    const working = work().finally(() => {
      running -= 1;
    });
    return await guarded(working);
  };
}
