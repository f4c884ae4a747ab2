// From what goes wrong at Stripe while billing works to the answer that a client gets: Stripe away is a 503, and says so.
import { type Failure, Unavailable } from '../errors.js';
import type { Log } from '../log.js';
import { StripeProblem } from './shapes.js';

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
      return new Unavailable('stripeBusy');
    case 'unreachable':
      return new Unavailable('stripeDown');
    case 'missing':
    case 'refused':
      return new Unavailable('stripeRefuses');
  }
}
