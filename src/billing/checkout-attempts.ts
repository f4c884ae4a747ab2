// Attempts to buy, in Postgres: one that is open for each user, so that retries of all nodes are the same attempt at Stripe.
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../store/postgres.js';

export interface CheckoutAttempt {
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
export async function claimAttempt(
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
export async function keepSession(sql: Queries, attemptId: string, sessionId: string): Promise<boolean> {
  const kept = await sql`
    UPDATE billing_checkouts SET session_id = ${sessionId} WHERE id = ${attemptId} AND closed_at IS NULL RETURNING id`;
  return kept.length > 0;
}

export async function closeAttempt(sql: Queries, attemptId: string): Promise<void> {
  await sql`UPDATE billing_checkouts SET closed_at = now() WHERE id = ${attemptId} AND closed_at IS NULL`;
}
