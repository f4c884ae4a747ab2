// Billing as one object: what the routes, the webhook and the command line ask of it. Without settings it is off and says so.
import type { BillingSettings } from '../config-types.js';
import { Failure } from '../errors.js';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { type Applier, createApplier, type PlanChanged } from './apply.js';
import { createCheckouts, type OpenCheckout } from './checkouts.js';
import { answering } from './failures.js';
import { createCatalog } from './plans.js';
import { createPrices } from './prices.js';
import { findRecord } from './records.js';
import { type Price, type StripeApi, StripeProblem } from './shapes.js';
import { createStripeApi } from './stripe.js';

export interface BillingParts {
  readonly sql: Sql;
  readonly plans: ReadonlyMap<string, number>;
  /** Null: billing is off. */
  readonly settings: BillingSettings | null;
  /** Null: this process can't tell the admission. */
  readonly planChanged: PlanChanged | null;
  readonly log: Log;
  readonly now: () => number;
  /** Of one try of one call to Stripe; unset: as stripe.ts has it. */
  readonly stripeTimeoutMs?: number;
}

/** The body of `/me` and `sync`. */
export interface BillingState {
  readonly plan: string;
  readonly hourlyLimit: number;
  readonly status: string;
  /** `YYYY-MM-DDThh:mm:ss`, UTC. */
  readonly currentPeriodEnd: string | null;
  readonly cancelAtPeriodEnd: boolean;
  readonly plans: readonly { readonly name: string; readonly hourlyLimit: number; readonly price: Price | null }[];
}

/** What needs Stripe. */
export interface ActiveBilling {
  readonly stripe: StripeApi;
  readonly applier: Applier;
}

/** Its calls throw Failure. */
export interface Billing {
  /** Throws Failure `unavailable` when billing is off. */
  active(): ActiveBilling;
  readonly isOn: boolean;
  me(userId: string): Promise<BillingState>;
  checkout(userId: string, plan: string): Promise<OpenCheckout>;
  portal(userId: string): Promise<{ readonly url: string }>;
  sync(userId: string, checkoutSessionId: string | null): Promise<BillingState>;
}

/** Only a restart with other settings turns it on. */
const OFF_RETRY_SECONDS = 3600;

export function createBilling(parts: BillingParts): Billing {
  const { sql, settings, log, now } = parts;
  const catalog = createCatalog(parts.plans, settings?.prices ?? new Map());
  const on = settings === null ? null : turnOn(parts, settings);

  function turnOn({ planChanged, stripeTimeoutMs }: BillingParts, { returnBase, ...rest }: BillingSettings) {
    const timeout = stripeTimeoutMs === undefined ? {} : { timeoutMs: stripeTimeoutMs };
    const stripe = createStripeApi({ ...rest, ...timeout });
    const applier = createApplier({ sql, stripe, catalog, planChanged, log, now });
    const checkouts = createCheckouts({ sql, stripe, catalog, applier, baseUrl: returnBase, now });
    return { stripe, applier, checkouts, prices: createPrices(stripe, log, now), returnBase };
  }

  function active(): NonNullable<typeof on> {
    if (on === null) throw new Failure('unavailable', 'Billing is not configured', OFF_RETRY_SECONDS);
    return on;
  }

  async function stateOf(userId: string): Promise<BillingState> {
    const record = await findRecord(sql, userId, on?.stripe.livemode ?? true);
    if (record === null) throw new Failure('tokenInvalid');
    const plans = catalog.plans.map(async ({ name, hourlyLimit, priceId }) => {
      const price = on === null || priceId === null ? null : await on.prices.of(priceId);
      return { name, hourlyLimit, price };
    });
    return {
      plan: record.plan,
      hourlyLimit: catalog.hourlyLimitOf(record.plan),
      status: record.status ?? 'none',
      currentPeriodEnd: record.currentPeriodEnd?.toISOString().slice(0, 19) ?? null,
      cancelAtPeriodEnd: record.cancelAtPeriodEnd,
      plans: await Promise.all(plans),
    };
  }

  /** A customer that was deleted at Stripe is found out and forgotten, and the user told that there is none. */
  async function portal(userId: string): Promise<{ url: string }> {
    const { stripe, applier, returnBase } = active();
    const customerId = (await findRecord(sql, userId, stripe.livemode))?.customerId ?? null;
    try {
      if (customerId !== null) return { url: await stripe.createPortal(customerId, `${returnBase}/billing`) };
    } catch (error) {
      const isMissing = error instanceof StripeProblem && error.facts.kind === 'missing';
      if (!isMissing || (await applier.apply(userId)).hasCustomer) throw error;
    }
    throw new Failure('conflict', 'Nothing has been bought yet: start with a checkout');
  }

  async function sync(userId: string, checkoutSessionId: string | null): Promise<BillingState> {
    const { stripe, applier } = active();
    if (checkoutSessionId !== null) {
      const session = await stripe.readCheckout(checkoutSessionId);
      if (session === null) throw new Failure('notFound', 'checkout session');
      const record = await findRecord(sql, userId, stripe.livemode);
      const isOwn = session.customerId !== null && session.customerId === record?.customerId;
      if (!isOwn) throw new Failure('foreignCheckout');
    }
    await applier.apply(userId);
    await announceOrLog(applier, userId, log);
    return await stateOf(userId);
  }

  return {
    active,
    isOn: on !== null,
    me: (userId) => answering(log, () => stateOf(userId)),
    checkout: (userId, plan) =>
      answering(log, async () => {
        const { applier, checkouts } = active();
        try {
          return await checkouts.open(userId, plan);
        } finally {
          await announceOrLog(applier, userId, log);
        }
      }),
    portal: (userId) => answering(log, () => portal(userId)),
    sync: (userId, checkoutSessionId) => answering(log, () => sync(userId, checkoutSessionId)),
  };
}

/** The plan is in Postgres; the admission that can't be told now is told by the upkeep. */
async function announceOrLog(applier: Applier, userId: string, log: Log): Promise<void> {
  try {
    await applier.announce(userId);
  } catch (error) {
    log.warn({ userId, err: error }, 'billing: the admission could not be told of a plan');
  }
}
