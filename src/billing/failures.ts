// From what goes wrong at Stripe while billing works to the answer that a client gets: Stripe away is a 503, and says so.
import { Failure } from '../errors.js';
import type { Log } from '../log.js';
import { StripeProblem } from './shapes.js';

const UNREACHABLE_RETRY_SECONDS = 5;
const BUSY_RETRY_SECONDS = 1;
/** Somebody has to look at it first. */
const REFUSED_RETRY_SECONDS = 60;

/** Runs a handler's work; throws Failure for what is foreseen, and anything else as it is. */
export async function answering<T>(log: Log, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toFailure(log, error);
  }
}

function toFailure(log: Log, error: unknown): unknown {
  if (!(error instanceof StripeProblem)) return error;
  logProblem(log, error);
  return failureOf(error);
}

export function logProblem(log: Log, { facts }: StripeProblem): void {
  if (facts.kind === 'refused' || facts.kind === 'missing') log.error(facts, 'billing: Stripe refuses a request');
  else log.warn(facts, 'billing: Stripe can not be asked');
}

function failureOf({ facts: { kind } }: StripeProblem): Failure {
  switch (kind) {
    case 'busy':
      return new Failure('unavailable', 'Too many calls to Stripe at once', BUSY_RETRY_SECONDS);
    case 'unreachable':
      return new Failure('unavailable', 'Stripe does not answer; the plan stays as it is', UNREACHABLE_RETRY_SECONDS);
    case 'missing':
    case 'refused':
      return new Failure('unavailable', 'Stripe refuses the request; the log says more', REFUSED_RETRY_SECONDS);
  }
}
