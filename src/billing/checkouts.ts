// Buying: one open checkout per user, kept in Postgres, so that retries are the same attempt and no two can be paid.
import { v7 as uuidv7 } from 'uuid';
import { Failure } from '../errors.js';
import type { Sql } from '../store/postgres.js';
import type { Applier } from './apply.js';
import { ensureCustomer, isFinal } from './customers.js';
import type { Catalog } from './plans.js';
import { type CheckoutSession, type StripeApi, StripeProblem } from './shapes.js';

export interface OpenCheckout {
  readonly id: string;
  readonly url: string;
}

export interface Checkouts {
  /** The user's open checkout for the plan. Throws Failure `badRequest` or `conflict`, and StripeProblem. */
  open(userId: string, plan: string): Promise<OpenCheckout>;
}

export interface CheckoutParts {
  readonly sql: Sql;
  readonly stripe: StripeApi;
  readonly catalog: Catalog;
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
const BUSY_RETRY_SECONDS = 2;

interface Attempt {
  readonly id: string;
  readonly userId: string;
  readonly customerId: string;
  readonly plan: string;
  readonly priceId: string;
  readonly returnBase: string;
  readonly expiresAt: Date;
  readonly sessionId: string | null;
}

export function createCheckouts({ sql, stripe, catalog, applier, baseUrl, now }: CheckoutParts): Checkouts {
  const { livemode } = stripe;
  const running = new Map<string, { readonly plan: string; readonly result: Promise<OpenCheckout> }>();

  async function open(userId: string, plan: string, priceId: string): Promise<OpenCheckout> {
    for (let round = 0; round < ROUNDS; round += 1) {
      const customerId = await ensureCustomer(sql, stripe, userId);
      const { holdsSubscription, hasCustomer } = await applier.apply(userId);
      if (holdsSubscription) throw new Failure('conflict', 'There is a subscription already: change it in the portal');
      // Deleted at Stripe: the next round makes another one.
      if (!hasCustomer) continue;
      const attempt = await claim(userId, customerId, plan, priceId);
      const session = await sessionOf(attempt);
      if (session === null) continue;
      const isWanted = attempt.plan === plan && attempt.priceId === priceId && attempt.customerId === customerId;
      const msLeft = attempt.expiresAt.getTime() - now();
      if (session.status === 'open' && session.url !== null && isWanted && msLeft > REUSED_UNTIL_MS) {
        return { id: session.id, url: session.url };
      }
      if (session.status === 'open') await expire(session.id);
      await close(attempt.id);
    }
    throw new Failure('unavailable', 'The checkout keeps changing', BUSY_RETRY_SECONDS);
  }

  /** The user's open attempt, which is a new one when there was none. */
  async function claim(userId: string, customerId: string, plan: string, priceId: string): Promise<Attempt> {
    // Whole seconds: that is what Stripe is told, again and again.
    const expiresAt = new Date(Math.floor((now() + LIFETIME_MS) / 1000) * 1000);
    await sql`
      INSERT INTO billing_checkouts (id, user_id, livemode, customer_id, plan, price_id, return_base, expires_at)
      VALUES (${uuidv7()}, ${userId}, ${livemode}, ${customerId}, ${plan}, ${priceId}, ${baseUrl}, ${expiresAt})
      ON CONFLICT (user_id, livemode) WHERE closed_at IS NULL DO NOTHING`;
    const [attempt] = await sql<Attempt[]>`
      SELECT id, user_id AS "userId", customer_id AS "customerId", plan, price_id AS "priceId", return_base AS "returnBase",
        expires_at AS "expiresAt", session_id AS "sessionId"
      FROM billing_checkouts WHERE user_id = ${userId} AND livemode = ${livemode} AND closed_at IS NULL`;
    if (attempt === undefined) throw new Failure('unavailable', 'The checkout keeps changing', BUSY_RETRY_SECONDS);
    return attempt;
  }

  /** What Stripe has of the attempt; null, and the attempt closed, when there is nothing that anybody could pay. */
  async function sessionOf(attempt: Attempt): Promise<CheckoutSession | null> {
    if (attempt.sessionId !== null) {
      const session = await stripe.readCheckout(attempt.sessionId);
      if (session === null) await close(attempt.id);
      return session;
    }
    if (attempt.expiresAt.getTime() - now() < REPEATED_UNTIL_MS) {
      // If Stripe made a session, nobody was ever told its address.
      await close(attempt.id);
      return null;
    }
    return await create(attempt);
  }

  async function create(attempt: Attempt): Promise<CheckoutSession> {
    const { id, expiresAt } = attempt;
    const expiresAtSeconds = Math.floor(expiresAt.getTime() / 1000);
    let session: CheckoutSession;
    try {
      session = await stripe.createCheckout({ ...attempt, attemptId: id, expiresAtSeconds });
    } catch (error) {
      if (error instanceof StripeProblem && isFinal(error)) await close(id);
      throw error;
    }
    const kept = await sql`
      UPDATE billing_checkouts SET session_id = ${session.id} WHERE id = ${id} AND closed_at IS NULL RETURNING id`;
    // Who took its place has expired the session, or will find it by the same idempotency key and do so.
    if (kept.length === 0) throw new Failure('conflict', 'Another checkout took the place of this one');
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

  async function close(attemptId: string): Promise<void> {
    await sql`UPDATE billing_checkouts SET closed_at = now() WHERE id = ${attemptId} AND closed_at IS NULL`;
  }

  return {
    async open(userId, plan) {
      const priceId = catalog.priceOf(plan);
      if (priceId === null) throw new Failure('badRequest', `plan: must be one of ${sold(catalog).join(', ')}`);
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

function sold(catalog: Catalog): string[] {
  return catalog.plans.filter(({ priceId }) => priceId !== null).map(({ name }) => name);
}
