// What billing knows of Stripe: the few facts that are read, in our own words, and the problem that stands for all of its errors.
import { type Failure, Unavailable } from '../errors.js';
import type { Log } from '../log.js';

export interface SubscriptionState {
  readonly id: string;
  /** Stripe's word: active, trialing, past_due, canceled, unpaid, paused, incomplete, incomplete_expired. */
  readonly status: string;
  readonly createdSeconds: number;
  readonly priceIds: readonly string[];
  readonly periodStartSeconds: number;
  readonly periodEndSeconds: number;
  readonly cancelAtPeriodEnd: boolean;
  /** Every payment of its latest invoice was given back in full. */
  readonly refunded: boolean;
}

export type CustomerState =
  | { readonly kind: 'deleted' }
  /** Its subscriptions of any status, newest first. */
  | { readonly kind: 'present'; readonly subscriptions: readonly SubscriptionState[] };

export interface CheckoutSession {
  readonly id: string;
  readonly status: 'open' | 'complete' | 'expired';
  /** Null unless it is open. */
  readonly url: string | null;
  readonly customerId: string | null;
}

export interface Price {
  /** In the currency's smallest unit. */
  readonly amount: number;
  /** ISO 4217, lower case. */
  readonly currency: string;
  /** day, week, month or year; null: not recurring. */
  readonly interval: string | null;
}

/** An event that Stripe signed. Nothing of its content is believed but whom it is about. */
export interface SignedEvent {
  readonly id: string;
  readonly type: string;
  readonly livemode: boolean;
  readonly customerId: string | null;
}

export interface NewCheckout {
  readonly attemptId: string;
  readonly userId: string;
  readonly customerId: string;
  readonly priceId: string;
  /** Without a slash at its end. */
  readonly returnBase: string;
  readonly expiresAtSeconds: number;
}

/** Every call throws StripeProblem and nothing else. */
export interface StripeApi {
  readonly livemode: boolean;
  createCustomer(customer: { userId: string; email: string; idempotencyKey: string }): Promise<string>;
  readCustomer(customerId: string): Promise<CustomerState>;
  createCheckout(checkout: NewCheckout): Promise<CheckoutSession>;
  /** Null: no such session. */
  readCheckout(sessionId: string): Promise<CheckoutSession | null>;
  expireCheckout(sessionId: string): Promise<void>;
  /** The URL of the portal. */
  createPortal(customerId: string, returnUrl: string): Promise<string>;
  /** Null: it has no single amount. */
  readPrice(priceId: string): Promise<Price | null>;
  /** Null: not signed with our secret, or signed too long ago. */
  verifyEvent(body: Buffer, signature: string, nowMs: number): SignedEvent | null;
}

export interface StripeProblemFacts {
  /** `unreachable`: it may work later; `busy`: too many calls of ours; `missing`: no such thing there; `refused`: anything else. */
  readonly kind: 'unreachable' | 'busy' | 'missing' | 'refused';
  readonly call: string;
  readonly status: number | null;
  readonly code: string | null;
  readonly requestId: string | null;
  /** The answer is the one that was recorded for this idempotency key: the same try can't end otherwise. */
  readonly replayed: boolean;
  /** Why there was no answer, as a code or the name of an error; null when there was one. */
  readonly cause: string | null;
}

/** Facts that may be logged; Stripe's own message can quote what was sent, so it is not among them. */
export class StripeProblem extends Error {
  readonly facts: StripeProblemFacts;

  constructor(facts: StripeProblemFacts) {
    super(`Stripe: ${facts.call}: ${facts.kind}`);
    this.name = 'StripeProblem';
    this.facts = facts;
  }
}

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
