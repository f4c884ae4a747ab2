// The one decision that billing makes: which plan the subscriptions at Stripe pay for.
import { type Plan, type Plans, planOfPrice } from '../config/plans.js';
import type { SubscriptionState } from './shapes.js';

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
