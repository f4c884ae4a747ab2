// Billing as one object: what the routes, the webhook and the command line ask of it, with what the plans cost. Without settings it is off and
// says so.
import { z } from 'zod';
import type { BillingSettings } from '../config/config.js';
import { limitOf, type Plans } from '../config/plans.js';
import { Failure, Unavailable } from '../errors.js';
import type { Log } from '../log.js';
import type { SqlOf } from '../store/postgres.js';
import { withinOr } from '../waiting/within.js';
import { WireTime, wireTime } from '../wire-text.js';
import { type Applier, createApplier, type PlanChanged } from './apply.js';
import { createCheckouts, type OpenCheckout } from './checkouts.js';
import { findRecord } from './records.js';
import { answering, createStripeApi, logProblem, type Price, type StripeApi, StripeProblem } from './stripe.js';

interface BillingParts {
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
type BillingState = z.infer<typeof State>;

const NOT_SOLD: ToldPrice = { price: null, isPending: false };

/** What needs Stripe. */
export interface ActiveBilling {
  readonly stripe: StripeApi;
  readonly applier: Applier;
}

/** Its calls throw Failure. */
export type Billing = ReturnType<typeof createBilling>;

/** The party of its other questions, among the accounts that share the store's connections: those wait for Stripe as well. */
const BILLING = 'billing';

export function createBilling(parts: BillingParts) {
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

  /** What needs Stripe. Throws Failure `unavailable` when billing is off. */
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
      hourlyLimit: limitOf(plans, { ...record, isSuspended: false }),
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
    me: (userId: string): Promise<BillingState> => answering(log, () => stateOf(userId)),
    checkout: (userId: string, plan: string): Promise<OpenCheckout> =>
      answering(log, async () => {
        const { applier, checkouts } = active();
        try {
          return await checkouts.open(userId, plan);
        } finally {
          await announceOrLog(applier, userId, log);
        }
      }),
    portal: (userId: string): Promise<{ url: string }> => answering(log, () => portal(userId)),
    sync: (userId: string, checkoutSessionId: string | null): Promise<BillingState> =>
      answering(log, () => sync(userId, checkoutSessionId)),
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

interface ToldPrice {
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

/** What the plans cost, as Stripe says: asked now and then, and never waited for long. */
function createPrices(stripe: StripeApi, log: Log, now: () => number) {
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
    async of(priceId: string): Promise<ToldPrice> {
      const entry = known.get(priceId);
      if (entry !== undefined && now() < entry.askAgainAtMs) return entry.told;
      const answer = asked.get(priceId) ?? ask(priceId);
      asked.set(priceId, answer);
      // The next caller finds what comes later.
      return await withinOr(answer, WAIT_MS, entry?.told ?? PENDING);
    },
  };
}
