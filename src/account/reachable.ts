// Answers of the account store: one that doesn't come is a 503, a mistake in what it was asked surfaces.
import { Failure } from '../errors.js';
import { codeOf } from '../store/store-error.js';
import { within } from '../store/within.js';

/** A Postgres that takes longer than this for one row is down for us. */
const TIMEOUT_MS = 5_000;
const RETRY_SECONDS = 2;
/** Postgres' own codes, which have a digit where EPIPE has none; a connection, resources, the operator or a lock were the reason. */
const SQL_STATE = /^(?=.*\d)[0-9A-Z]{5}$/;
const SQL_STATE_DOWN = /^(08|53|57|58|25006|55P03)/;

/** Throws Failure('unavailable') when the store is down or slow; failures of the work itself pass. */
export async function reachable<T>(work: Promise<T>): Promise<T> {
  try {
    return await within(work, TIMEOUT_MS);
  } catch (error) {
    if (error instanceof Failure || !isDown(error)) throw error;
    const failure = new Failure('unavailable', 'The account store is not reachable', RETRY_SECONDS);
    failure.cause = error;
    throw failure;
  }
}

/** Work of people who aren't signed in, at one time; the driver queues it over its ten connections, with everybody else's. */
const STRANGERS_MAX = 256;
const BUSY_RETRY_SECONDS = 1;

/** The same for what anybody may ask: whoever guesses tokens and passwords fills this, not Postgres. */
export function createStrangers(): <T>(work: () => Promise<T>) => Promise<T> {
  let running = 0;
  return async (work) => {
    if (running >= STRANGERS_MAX) throw new Failure('unavailable', 'Too many sign-ins at once', BUSY_RETRY_SECONDS);
    running += 1;
    // Not freed by the timeout: a Postgres that hangs must not be given more and more to do.
    const working = work().finally(() => {
      running -= 1;
    });
    return await reachable(working);
  };
}

function isDown(error: unknown): boolean {
  const code = codeOf(error);
  // `within` and the driver throw plain errors, the language doesn't.
  if (code === null) return error instanceof Error && error.name === 'Error';
  return !SQL_STATE.test(code) || SQL_STATE_DOWN.test(code);
}
