// Billing as one object: what the routes, the webhook and the command line ask of it. Without settings it is off and says so.
import { z } from 'zod';
import type { BillingSettings } from '../config/config.js';
import { hourlyLimitOf, type Plans } from '../config/plans.js';
import { Failure, Unavailable } from '../errors.js';
import type { Log } from '../log.js';
import type { SqlOf } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-text.js';
import { type Applier, createApplier, type PlanChanged } from './apply.js';
import { createCheckouts, type OpenCheckout } from './checkouts.js';
import { createPrices, type ToldPrice } from './prices.js';
import { findRecord } from './records.js';
import { answering, type StripeApi, StripeProblem } from './shapes.js';
import { createStripeApi } from './stripe.js';

export interface BillingParts {
  readonly sqlOf: SqlOf;
  readonly plans: Plans;
  /** Null: billing is off. */
  readonly settings: BillingSettings | null;
  /** Null: this process can't tell the admission. */
  readonly planChanged: PlanChanged | null;
  readonly log: Log;
  readonly now: () => number;
  /** Of one try of one call to Stripe; unset: as stripe.ts has it. */
  readonly stripeTimeoutMs?: number;
}

const ShownPrice = z.object({
  amount: z.int().describe("in the currency's smallest unit"),
  currency: z.string().describe('ISO 4217, lower case'),
  interval: z.string().nullable().describe('day, week, month or year'),
});

/** The body of `/me` and `sync`. */
export const State = z
  .object({
    plan: z.string(),
    hourlyLimit: z.int(),
    status: z
      .string()
      .describe(
        "`none`, `refunded`, or Stripe's: active, trialing, past_due, canceled, unpaid, paused, incomplete, ...",
      ),
    currentPeriodEnd: WireTime.nullable(),
    cancelAtPeriodEnd: z.boolean(),
    plans: z.array(
      z.object({
        name: z.string(),
        hourlyLimit: z.int(),
        price: ShownPrice.nullable().describe("null: it can't be bought, or Stripe has not said its price"),
        pricePending: z
          .literal(true)
          .optional()
          .describe('Only where Stripe has not said the price so far, and is asked: ask again'),
      }),
    ),
  })
  .meta({ id: 'Billing' });
export type BillingState = z.infer<typeof State>;

const NOT_SOLD: ToldPrice = { price: null, isPending: false };

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

/** The party of its other questions, among the accounts that share the store's connections: those wait for Stripe as well. */
const BILLING = 'billing';

export function createBilling(parts: BillingParts): Billing {
  const { sqlOf, plans, settings, log, now } = parts;
  const sql = sqlOf(BILLING);
  const on = settings === null ? null : turnOn(parts, settings);

  function turnOn({ planChanged, stripeTimeoutMs }: BillingParts, { returnBase, ...rest }: BillingSettings) {
    const timeout = stripeTimeoutMs === undefined ? {} : { timeoutMs: stripeTimeoutMs };
    const stripe = createStripeApi({ ...rest, ...timeout });
    const applier = createApplier({ sql, stripe, plans, planChanged, log, now });
    const checkouts = createCheckouts({ sql, stripe, plans, applier, baseUrl: returnBase, now });
    return { stripe, applier, checkouts, prices: createPrices(stripe, log, now), returnBase };
  }

  function active(): NonNullable<typeof on> {
    if (on === null) throw new Unavailable('billingOff');
    return on;
  }

  async function stateOf(userId: string): Promise<BillingState> {
    const record = await findRecord(sqlOf(userId), userId, on?.stripe.livemode ?? true);
    if (record === null) throw new Failure('tokenInvalid');
    const shown = plans.map(async ({ name, hourlyLimit, prices: [priceId] }) => {
      const told = on === null || priceId === undefined ? NOT_SOLD : await on.prices.of(priceId);
      const plan = { name, hourlyLimit, price: told.price };
      return told.isPending ? { ...plan, pricePending: true as const } : plan;
    });
    return {
      plan: record.plan,
      hourlyLimit: hourlyLimitOf(plans, record.plan),
      status: record.status ?? 'none',
      currentPeriodEnd: record.currentPeriodEnd === null ? null : wireTime(record.currentPeriodEnd),
      cancelAtPeriodEnd: record.cancelAtPeriodEnd,
      plans: await Promise.all(shown),
    };
  }

  /** When a customer was deleted at Stripe, we forget it and answer that there is none. */
  async function portal(userId: string): Promise<{ url: string }> {
    const { stripe, applier, returnBase } = active();
    const customerId = (await findRecord(sqlOf(userId), userId, stripe.livemode))?.customerId ?? null;
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

/** The plan is in Postgres. If the admission can't be reached now, the upkeep announces the plan later. */
async function announceOrLog(applier: Applier, userId: string, log: Log): Promise<void> {
  try {
    await applier.announce(userId);
  } catch (error) {
    log.warn({ userId, err: error }, 'billing: a plan could not be announced to the admission');
  }
}
