// Plans and prices as they are configured, and the one decision that billing makes: which plan the subscriptions at Stripe pay for.
import type { SubscriptionState } from './shapes.js';

/** While a payment is retried the plan stays, for so long from the start of the period that isn't paid. */
const GRACE_SECONDS = 7 * 24 * 3600;

export interface Catalog {
  /** In the order of the configuration. */
  readonly plans: readonly { readonly name: string; readonly hourlyLimit: number; readonly priceId: string | null }[];
  /** The plan of whoever no longer pays. */
  readonly freePlan: string;
  /** What a checkout for the plan sells; null: it can't be bought. */
  priceOf(plan: string): string | null;
  /** The plan that a price pays for; null: not one of ours. */
  planOf(priceId: string): string | null;
  /** Of a plan that the configuration no longer has: the smallest that it has. */
  hourlyLimitOf(plan: string): number;
}

/** `prices`: plan name to its prices, of which the first is sold; the others are those of earlier subscribers. */
export function createCatalog(
  plans: ReadonlyMap<string, number>,
  prices: ReadonlyMap<string, readonly string[]>,
): Catalog {
  const smallest = Math.min(...plans.values());
  const planByPrice = new Map([...prices].flatMap(([plan, ids]) => ids.map((id) => [id, plan] as const)));
  const listed = [...plans].map(([name, hourlyLimit]) => ({
    name,
    hourlyLimit,
    priceId: prices.get(name)?.[0] ?? null,
  }));
  const unsold = listed.filter(({ priceId }) => priceId === null);
  const free = unsold.reduce((one, other) => (other.hourlyLimit < one.hourlyLimit ? other : one), unsold[0] ?? NO_PLAN);
  return {
    plans: listed,
    freePlan: free.name,
    priceOf: (plan) => prices.get(plan)?.[0] ?? null,
    planOf: (priceId) => planByPrice.get(priceId) ?? null,
    hourlyLimitOf: (plan) => plans.get(plan) ?? smallest,
  };
}

/** Only when every plan has a price, which the configuration refuses while billing is on. */
const NO_PLAN = { name: 'FREE', hourlyLimit: 0, priceId: null };

export type Decision =
  /** There was never a subscription: the plan is not billing's. */
  | { readonly kind: 'never' }
  | { readonly kind: 'paid'; readonly plan: string; readonly subscription: SubscriptionState }
  | { readonly kind: 'ended'; readonly subscription: SubscriptionState }
  /** It is paid, for something that the configuration doesn't know: the plan stays until somebody looks. */
  | { readonly kind: 'unknownPrice'; readonly subscription: SubscriptionState };

export function decide(catalog: Catalog, subscriptions: readonly SubscriptionState[], nowMs: number): Decision {
  const newestFirst = [...subscriptions].sort((one, other) => other.createdSeconds - one.createdSeconds);
  const [newest] = newestFirst;
  if (newest === undefined) return { kind: 'never' };
  const counting = newestFirst.filter((subscription) => counts(subscription, nowMs / 1000));
  let best: Extract<Decision, { kind: 'paid' }> | null = null;
  for (const subscription of counting) {
    for (const plan of subscription.priceIds.map(catalog.planOf)) {
      if (plan === null) continue;
      if (best !== null && catalog.hourlyLimitOf(plan) <= catalog.hourlyLimitOf(best.plan)) continue;
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

/** Statuses of a subscription that can still be paid for: who has one changes it in the portal and doesn't buy another. */
export function isOpen(status: string | null): boolean {
  return status !== null && ['active', 'trialing', 'past_due', 'unpaid', 'paused'].includes(status);
}
