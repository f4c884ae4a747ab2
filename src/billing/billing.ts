// Billing as one object: what the routes, the webhook and the command line ask of it, with what the plans cost. Without settings it is off and
// says so. A user has one open checkout, kept in Postgres, so that retries are the same attempt and no two can be paid.
import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import type { BillingSettings } from '../config/config.js';
import { limitOf, type Plans, planNamed } from '../config/plans.js';
import { Failure, Unavailable } from '../errors.js';
import type { Log } from '../log.js';
import type { Queries, Sql, SqlOf } from '../store/postgres.js';
import { withinOr } from '../waiting/within.js';
import { WireTime, wireTime } from '../wire-text.js';
import { type Applier, type ApplierParts, createApplier, ensureCustomer, findRecord, isFinal } from './records.js';
import {
  answering,
  type CheckoutSession,
  createStripeApi,
  logProblem,
  Price,
  type StripeApi,
  StripeProblem,
} from './stripe.js';

interface BillingParts extends Omit<ApplierParts, 'sql' | 'stripe'> {
  readonly sqlOf: SqlOf;
  /** Null: billing is off. */
  readonly settings: BillingSettings | null;
  /** Of one try of one call to Stripe; unset: as stripe.ts has it. */
  readonly stripeTimeoutMs?: number;
}

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
        price: Price.nullable().describe("null: it can't be bought, or Stripe has not said its price"),
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

export interface ActiveBilling {
  readonly stripe: StripeApi;
  readonly applier: Applier;
}

/** Its calls throw Failure. */
export type Billing = ReturnType<typeof createBilling>;

/** The party of its other questions, among the accounts that share the store's connections: those wait for Stripe as well. */
const BILLING = 'billing';

export function createBilling(parts: BillingParts) {
  const { sqlOf, plans, settings, log } = parts;
  const on = settings === null ? null : turnOn(parts, settings);

  /** What needs Stripe. Throws Failure `unavailable` when billing is off. */
  function active(): NonNullable<typeof on> {
    if (on === null) throw new Unavailable('billingOff');
    return on;
  }

  async function stateOf(userId: string): Promise<BillingState> {
    const record = await findRecord(sqlOf(userId), userId, on?.stripe.livemode ?? true);
    if (record === null) throw new Failure('tokenInvalid');
    const shown = plans.map(async ({ name, hourlyLimit, prices: [priceId] }) => {
      const { price, isPending } = (priceId === undefined ? null : await on?.prices.of(priceId)) ?? NOT_SOLD;
      return { name, hourlyLimit, price, ...(isPending ? { pricePending: true as const } : {}) };
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
    if (checkoutSessionId !== null) await requireOwnCheckout(sqlOf(BILLING), stripe, userId, checkoutSessionId);
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

async function requireOwnCheckout(sql: Sql, stripe: StripeApi, userId: string, id: string): Promise<void> {
  const session = await stripe.readCheckout(id);
  if (session === null) throw new Failure('notFound', 'checkout session');
  const record = await findRecord(sql, userId, stripe.livemode);
  const isOwn = session.customerId !== null && session.customerId === record?.customerId;
  if (!isOwn) throw new Failure('foreignCheckout');
}

/** All that needs Stripe. */
function turnOn(
  { sqlOf, plans, planChanged, stripeTimeoutMs, log, now }: BillingParts,
  { returnBase, ...rest }: BillingSettings,
) {
  const sql = sqlOf(BILLING);
  const stripe = createStripeApi({ ...rest, ...(stripeTimeoutMs === undefined ? {} : { timeoutMs: stripeTimeoutMs }) });
  const applier = createApplier({ sql, stripe, plans, planChanged, log, now });
  const checkouts = createCheckouts({ sql, stripe, plans, applier, baseUrl: returnBase, now });
  return { stripe, applier, checkouts, prices: createPrices(stripe, log, now), returnBase };
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

/** What the plans cost, as Stripe says: asked now and then, and never waited for long. */
function createPrices(stripe: StripeApi, log: Log, now: () => number) {
  const known = new Map<string, { readonly told: ToldPrice; readonly askAgainAtMs: number }>();
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

export interface OpenCheckout {
  readonly id: string;
  readonly url: string;
}

interface CheckoutParts extends Omit<ApplierParts, 'planChanged' | 'log'> {
  readonly applier: Applier;
  readonly baseUrl: string;
}

const MINUTE_MS = 60_000;
/** How long a buyer may take. Stripe allows 30 minutes to 24 hours. */
const LIFETIME_MS = 120 * MINUTE_MS;
/** An open checkout that ends sooner is replaced. */
const REUSED_UNTIL_MS = 15 * MINUTE_MS;
/** A try whose answer never came is repeated as long as Stripe takes its time of expiry, and a few minutes less. */
const REPEATED_UNTIL_MS = 35 * MINUTE_MS;
/** Checkouts that may have to make room first: another plan's, one that was paid, one that expired. */
const ROUNDS = 4;

function createCheckouts({ sql, stripe, plans, applier, baseUrl, now }: CheckoutParts) {
  const sessions = createSessions({ sql, stripe, now });
  const running = new Map<string, { readonly plan: string; readonly result: Promise<OpenCheckout> }>();

  async function open(userId: string, plan: string, priceId: string): Promise<OpenCheckout> {
    for (let round = 0; round < ROUNDS; round += 1) {
      const customerId = await ensureCustomer(sql, stripe, userId);
      const { holdsSubscription, hasCustomer } = await applier.apply(userId);
      if (holdsSubscription) throw new Failure('conflict', 'There is a subscription already: change it in the portal');
      // Deleted at Stripe: the next round makes another one.
      if (!hasCustomer) continue;
      const attempt = await claim(userId, customerId, plan, priceId);
      const session = await sessions.of(attempt);
      if (session === null) continue;
      const isWanted = attempt.plan === plan && attempt.priceId === priceId && attempt.customerId === customerId;
      const msLeft = attempt.expiresAt.getTime() - now();
      if (session.status === 'open' && session.url !== null && isWanted && msLeft > REUSED_UNTIL_MS) {
        return { id: session.id, url: session.url };
      }
      if (session.status === 'open') await sessions.expire(session.id);
      await closeAttempt(sql, attempt.id);
    }
    throw new Unavailable('checkoutChanging');
  }

  /** The user's open attempt, which is this one when there was none. */
  async function claim(userId: string, customerId: string, plan: string, priceId: string): Promise<CheckoutAttempt> {
    const { livemode } = stripe;
    // Whole seconds: that is what every try sends to Stripe.
    const expiresAt = new Date(Math.floor((now() + LIFETIME_MS) / 1000) * 1000);
    await sql`
      INSERT INTO billing_checkouts (id, user_id, livemode, customer_id, plan, price_id, return_base, expires_at)
      VALUES (${uuidv7()}, ${userId}, ${livemode}, ${customerId}, ${plan}, ${priceId}, ${baseUrl}, ${expiresAt})
      ON CONFLICT (user_id, livemode) WHERE closed_at IS NULL DO NOTHING`;
    const [attempt] = await sql<CheckoutAttempt[]>`
      SELECT id, user_id AS "userId", customer_id AS "customerId", plan, price_id AS "priceId", return_base AS "returnBase",
        expires_at AS "expiresAt", session_id AS "sessionId"
      FROM billing_checkouts WHERE user_id = ${userId} AND livemode = ${livemode} AND closed_at IS NULL`;
    // It was closed at this moment.
    if (attempt === undefined) throw new Unavailable('checkoutChanging');
    return attempt;
  }

  return {
    /** The user's open checkout for the plan. Throws Failure `badRequest` or `conflict`, and StripeProblem. */
    async open(userId: string, plan: string): Promise<OpenCheckout> {
      const [priceId] = planNamed(plans, plan)?.prices ?? [];
      if (priceId === undefined) throw new Failure('badRequest', `plan: must be one of ${soldOf(plans).join(', ')}`);
      // Calls for one plan share their answer; another plan's waits, and then replaces it.
      for (;;) {
        const other = running.get(userId);
        if (other === undefined) break;
        if (other.plan === plan) return await other.result;
        await other.result.catch(() => undefined);
      }
      const result = open(userId, plan, priceId).finally(() => running.delete(userId));
      running.set(userId, { plan, result });
      return await result;
    },
  };
}

const soldOf = (plans: Plans): string[] => plans.filter(({ prices }) => prices.length > 0).map(({ name }) => name);

function createSessions({ sql, stripe, now }: Pick<CheckoutParts, 'sql' | 'stripe' | 'now'>) {
  /** What Stripe has of the attempt; null, and the attempt closed, when there is nothing that anybody could pay. */
  async function sessionOf(attempt: CheckoutAttempt): Promise<CheckoutSession | null> {
    if (attempt.sessionId !== null) {
      const session = await stripe.readCheckout(attempt.sessionId);
      if (session === null) await closeAttempt(sql, attempt.id);
      return session;
    }
    if (attempt.expiresAt.getTime() - now() < REPEATED_UNTIL_MS) {
      // If Stripe made a session, nobody ever got its address.
      await closeAttempt(sql, attempt.id);
      return null;
    }
    return await create(attempt);
  }

  async function create(attempt: CheckoutAttempt): Promise<CheckoutSession> {
    const { id, expiresAt } = attempt;
    const expiresAtSeconds = Math.floor(expiresAt.getTime() / 1000);
    let session: CheckoutSession;
    try {
      session = await stripe.createCheckout({ ...attempt, attemptId: id, expiresAtSeconds });
    } catch (error) {
      if (error instanceof StripeProblem && isFinal(error)) await closeAttempt(sql, id);
      throw error;
    }
    // The attempt in its place has expired the session, or will find it by the same idempotency key and expire it.
    if (!(await keepSession(sql, id, session.id)))
      throw new Failure('conflict', 'Another checkout took the place of this one');
    return session;
  }

  async function expire(sessionId: string): Promise<void> {
    try {
      await stripe.expireCheckout(sessionId);
    } catch (error) {
      // Paid or expired in this moment: the next round sees which.
      if (!(error instanceof StripeProblem && error.facts.kind === 'refused')) throw error;
    }
  }

  return { of: sessionOf, expire };
}

interface CheckoutAttempt {
  readonly id: string;
  readonly userId: string;
  readonly customerId: string;
  readonly plan: string;
  readonly priceId: string;
  readonly returnBase: string;
  readonly expiresAt: Date;
  /** At Stripe; null: none was made that we know of. */
  readonly sessionId: string | null;
}

/** Whether the attempt was still open, and has the session now. */
async function keepSession(sql: Queries, attemptId: string, sessionId: string): Promise<boolean> {
  const kept = await sql`
    UPDATE billing_checkouts SET session_id = ${sessionId} WHERE id = ${attemptId} AND closed_at IS NULL RETURNING id`;
  return kept.length > 0;
}

async function closeAttempt(sql: Queries, attemptId: string): Promise<void> {
  await sql`UPDATE billing_checkouts SET closed_at = now() WHERE id = ${attemptId} AND closed_at IS NULL`;
}
