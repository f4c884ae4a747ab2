// Buying: one open checkout per user, kept in Postgres, so that retries are the same attempt and no two can be paid.

import { v7 as uuidv7 } from 'uuid';
import { type Plans, planNamed } from '../config/plans.js';
import { Failure, Unavailable } from '../errors.js';
import type { Queries, Sql } from '../store/postgres.js';
import type { Applier } from './apply.js';
import { ensureCustomer, isFinal } from './records.js';
import { type CheckoutSession, type StripeApi, StripeProblem } from './stripe.js';

export interface OpenCheckout {
  readonly id: string;
  readonly url: string;
}

interface CheckoutParts {
  readonly sql: Sql;
  readonly stripe: StripeApi;
  readonly plans: Plans;
  readonly applier: Applier;
  readonly baseUrl: string;
  readonly now: () => number;
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

export function createCheckouts({ sql, stripe, plans, applier, baseUrl, now }: CheckoutParts) {
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

  async function claim(userId: string, customerId: string, plan: string, priceId: string): Promise<CheckoutAttempt> {
    // Whole seconds: that is what every try sends to Stripe.
    const expiresAt = new Date(Math.floor((now() + LIFETIME_MS) / 1000) * 1000);
    const wanted = { userId, customerId, plan, priceId, returnBase: baseUrl, expiresAt };
    const attempt = await claimAttempt(sql, wanted, stripe.livemode);
    if (attempt === null) throw new Unavailable('checkoutChanging');
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

function soldOf(plans: Plans): string[] {
  return plans.filter(({ prices }) => prices.length > 0).map(({ name }) => name);
}

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

/** The user's open attempt, which is the given one when there was none; null: it was closed at this moment. */
async function claimAttempt(
  sql: Queries,
  wanted: Omit<CheckoutAttempt, 'id' | 'sessionId'>,
  livemode: boolean,
): Promise<CheckoutAttempt | null> {
  const { userId, customerId, plan, priceId, returnBase, expiresAt } = wanted;
  await sql`
    INSERT INTO billing_checkouts (id, user_id, livemode, customer_id, plan, price_id, return_base, expires_at)
    VALUES (${uuidv7()}, ${userId}, ${livemode}, ${customerId}, ${plan}, ${priceId}, ${returnBase}, ${expiresAt})
    ON CONFLICT (user_id, livemode) WHERE closed_at IS NULL DO NOTHING`;
  const [attempt] = await sql<CheckoutAttempt[]>`
    SELECT id, user_id AS "userId", customer_id AS "customerId", plan, price_id AS "priceId", return_base AS "returnBase",
      expires_at AS "expiresAt", session_id AS "sessionId"
    FROM billing_checkouts WHERE user_id = ${userId} AND livemode = ${livemode} AND closed_at IS NULL`;
  return attempt ?? null;
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
