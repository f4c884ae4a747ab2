// One customer at Stripe per user: made once, even when several nodes ask for it at the same time.
import { Failure } from '../errors.js';
import type { Sql } from '../store/postgres.js';
import { type StripeApi, StripeProblem } from './shapes.js';

interface Row {
  readonly customerId: string | null;
  readonly email: string | null;
  readonly generation: number;
}

/** Returns the user's customer; makes it with one idempotency key for all tries. Throws StripeProblem, and Failure `tokenInvalid` of a user who is gone. */
export async function ensureCustomer(sql: Sql, stripe: StripeApi, userId: string): Promise<string> {
  const { livemode } = stripe;
  const before = await prepare(sql, userId, livemode);
  if (before.customerId !== null) return before.customerId;
  const { email, generation } = before;
  if (email === null) throw new Error('A customer to be made has an e-mail address');
  try {
    const idempotencyKey = `customer-${userId}-${generation}`;
    const customerId = await stripe.createCustomer({ userId, email, idempotencyKey });
    await sql`
      UPDATE billing_customers SET customer_id = ${customerId}, email = NULL
      WHERE user_id = ${userId} AND livemode = ${livemode} AND generation = ${generation} AND customer_id IS NULL`;
  } catch (error) {
    if (error instanceof StripeProblem && isFinal(error)) {
      await sql`
        UPDATE billing_customers SET generation = generation + 1, email = NULL
        WHERE user_id = ${userId} AND livemode = ${livemode} AND generation = ${generation} AND customer_id IS NULL`;
    }
    throw error;
  }
  const { customerId } = await prepare(sql, userId, livemode);
  if (customerId === null) throw new Error('The customer was deleted while it was made');
  return customerId;
}

/** Another try with the same key would get the same answer. */
export function isFinal({ facts }: StripeProblem): boolean {
  return facts.replayed || facts.kind === 'refused' || facts.kind === 'missing';
}

/** The user's row. The address is noted with the first try and not changed before the customer is there. */
async function prepare(sql: Sql, userId: string, livemode: boolean): Promise<Row> {
  await sql`
    INSERT INTO billing_customers AS b (user_id, livemode, email)
    SELECT id, ${livemode}, email FROM users WHERE id = ${userId}
    ON CONFLICT (user_id, livemode) DO UPDATE SET email = EXCLUDED.email
    WHERE b.customer_id IS NULL AND b.email IS NULL`;
  const [row] = await sql<Row[]>`
    SELECT customer_id AS "customerId", email, generation FROM billing_customers
    WHERE user_id = ${userId} AND livemode = ${livemode}`;
  if (row === undefined) throw new Failure('tokenInvalid');
  return row;
}
