// What the plans cost, as Stripe says: asked now and then, and never waited for long.

import { type Plan, type Plans, planOfPrice } from '../config/plans.js';
import type { Log } from '../log.js';
import { withinOr } from '../waiting/within.js';
import { logProblem, type Price, type StripeApi, StripeProblem, type SubscriptionState } from './shapes.js';

export interface Prices {
  of(priceId: string): Promise<ToldPrice>;
}

export interface ToldPrice {
  /** Null: not known, or it has no single amount. */
  readonly price: Price | null;
  /** Stripe has not said it: it has not answered yet, or has failed. It is asked again. */
  readonly isPending: boolean;
}

/** A price's amount never changes at Stripe; this is for the case that it ceases to have one. */
const FRESH_MS = 3_600_000;
/** After a failure Stripe is left alone for so long. */
const RETRY_MS = 30_000;
/** The plans are shown without prices rather than later. */
const WAIT_MS = 1_500;

const PENDING: ToldPrice = { price: null, isPending: true };

interface Entry {
  readonly told: ToldPrice;
  readonly askAgainAtMs: number;
}

export function createPrices(stripe: StripeApi, log: Log, now: () => number): Prices {
  const known = new Map<string, Entry>();
  const asked = new Map<string, Promise<ToldPrice>>();

  async function ask(priceId: string): Promise<ToldPrice> {
    try {
      const told = { price: await stripe.readPrice(priceId), isPending: false };
      known.set(priceId, { told, askAgainAtMs: now() + FRESH_MS });
      return told;
    } catch (error) {
      if (!(error instanceof StripeProblem)) throw error;
      // A price that STRIPE_PRICES names wrongly is found out here.
      logProblem(log, error);
      const told = known.get(priceId)?.told ?? PENDING;
      known.set(priceId, { told, askAgainAtMs: now() + RETRY_MS });
      return told;
    } finally {
      asked.delete(priceId);
    }
  }

  return {
    async of(priceId) {
      const entry = known.get(priceId);
      if (entry !== undefined && now() < entry.askAgainAtMs) return entry.told;
      const answer = asked.get(priceId) ?? ask(priceId);
      asked.set(priceId, answer);
      // The next caller finds what comes later.
      return await withinOr(answer, WAIT_MS, entry?.told ?? PENDING);
    },
  };
}

/** While a payment is retried the plan stays, for so long from the start of the period that isn't paid. */
const GRACE_SECONDS = 7 * 24 * 3600;

export type Decision =
  /** There was never a subscription: the plan is not billing's. */
  | { readonly kind: 'never' }
  | { readonly kind: 'paid'; readonly plan: Plan; readonly subscription: SubscriptionState }
  | { readonly kind: 'ended'; readonly subscription: SubscriptionState }
  /** It is paid, for something that the configuration doesn't know: the plan stays until somebody looks. */
  | { readonly kind: 'unknownPrice'; readonly subscription: SubscriptionState };

export function decide(plans: Plans, subscriptions: readonly SubscriptionState[], nowMs: number): Decision {
  const newestFirst = [...subscriptions].sort((one, other) => other.createdSeconds - one.createdSeconds);
  const [newest] = newestFirst;
  if (newest === undefined) return { kind: 'never' };
  const counting = newestFirst.filter((subscription) => counts(subscription, nowMs / 1000));
  let best: Extract<Decision, { kind: 'paid' }> | null = null;
  for (const subscription of counting) {
    for (const priceId of subscription.priceIds) {
      const plan = planOfPrice(plans, priceId);
      if (plan === null || (best !== null && plan.hourlyLimit <= best.plan.hourlyLimit)) continue;
      best = { kind: 'paid', plan, subscription };
    }
  }
  if (best !== null) return best;
  const [unknown] = counting;
  if (unknown !== undefined) return { kind: 'unknownPrice', subscription: unknown };
  // A first payment that never came is no news beside a subscription that there was.
  return { kind: 'ended', subscription: newestFirst.find(({ status }) => !/^incomplete/.test(status)) ?? newest };
}

function counts({ status, refunded, periodStartSeconds }: SubscriptionState, nowSeconds: number): boolean {
  if (refunded) return false;
  if (status === 'past_due') return nowSeconds < periodStartSeconds + GRACE_SECONDS;
  return status === 'active' || status === 'trialing';
}

/** Statuses of a subscription that can still be paid for: a user with one changes it in the portal and doesn't buy another. */
export function isOpen(status: string | null): boolean {
  return status !== null && ['active', 'trialing', 'past_due', 'unpaid', 'paused'].includes(status);
}
