// The billing rows in Postgres: who is which customer, and what Stripe said last. Nothing here waits for anything but Postgres.
import { Failure } from '../errors.js';
import type { Queries, Sql } from '../store/postgres.js';
import { type StripeApi, StripeProblem, type SubscriptionState } from './stripe.js';

interface BillingRecord {
  /** The user's plan, from Stripe or from the operator. */
  readonly plan: string;
  readonly ownLimit: number | null;
  /** Null: there is no customer at Stripe. */
  readonly customerId: string | null;
  /** Stripe's word, or `refunded`; null: there was no subscription yet. */
  readonly status: string | null;
  readonly currentPeriodEnd: Date | null;
  readonly cancelAtPeriodEnd: boolean;
  readonly announced: boolean;
}

/** A reading of Stripe that has begun. Of two, the one with the higher number knows what the other knows. */
export interface Reading {
  readonly number: number;
  readonly customerId: string;
}

/** Null: no such user. */
export async function findRecord(sql: Queries, userId: string, livemode: boolean): Promise<BillingRecord | null> {
  const [row] = await sql<BillingRecord[]>`
    SELECT u.plan, u.own_limit AS "ownLimit", b.customer_id AS "customerId",
      CASE WHEN b.refunded THEN 'refunded' ELSE b.status END AS status,
      b.current_period_end AS "currentPeriodEnd",
      coalesce(b.cancel_at_period_end, false) AS "cancelAtPeriodEnd",
      coalesce(b.announced, true) AS announced
    FROM users u LEFT JOIN billing_customers b ON b.user_id = u.id AND b.livemode = ${livemode}
    WHERE u.id = ${userId}`;
  return row ?? null;
}

/** Null: no user of ours is this customer. */
export async function findUser(sql: Queries, customerId: string, livemode: boolean): Promise<string | null> {
  const [row] = await sql<{ user_id: string }[]>`
    SELECT user_id FROM billing_customers WHERE customer_id = ${customerId} AND livemode = ${livemode}`;
  return row?.user_id ?? null;
}

/** Numbers a reading of Stripe, before Stripe is asked; null when the user has no customer there. */
export async function beginReading(sql: Queries, userId: string, livemode: boolean): Promise<Reading | null> {
  const [row] = await sql<Reading[]>`
    UPDATE billing_customers SET reads_begun = reads_begun + 1
    WHERE user_id = ${userId} AND livemode = ${livemode} AND customer_id IS NOT NULL
    RETURNING reads_begun AS number, customer_id AS "customerId"`;
  return row ?? null;
}

/** From here on no other transaction writes what Stripe said of this user: neither their row nor their events. */
export async function lockUser(tx: Queries, userId: string, livemode: boolean): Promise<void> {
  await tx`SELECT FROM billing_customers WHERE user_id = ${userId} AND livemode = ${livemode} FOR UPDATE`;
}

/**
 * Takes the reading as the newest; null when a later one was applied, or the customer isn't theirs any more. Otherwise the
 * plan that billing gave last.
 */
export async function takeReading(
  tx: Queries,
  userId: string,
  livemode: boolean,
  { number, customerId }: Reading,
): Promise<{ readonly givenPlan: string | null } | null> {
  const [row] = await tx<{ givenPlan: string | null }[]>`
    UPDATE billing_customers SET read_applied = ${number}
    WHERE user_id = ${userId} AND livemode = ${livemode} AND customer_id = ${customerId} AND read_applied < ${number}
    RETURNING plan AS "givenPlan"`;
  return row ?? null;
}

export async function writeSubscription(
  tx: Queries,
  userId: string,
  livemode: boolean,
  row: SubscriptionState | null,
): Promise<void> {
  await tx`
    UPDATE billing_customers SET
      subscription_id = ${row?.id ?? null}, status = ${row?.status ?? null}, refunded = ${row?.refunded ?? false},
      current_period_end = to_timestamp(nullif(${row?.periodEndSeconds ?? 0}::float8, 0)), cancel_at_period_end = ${row?.cancelAtPeriodEnd ?? false}
    WHERE user_id = ${userId} AND livemode = ${livemode}`;
}

/** Gives the user the plan; true when it is a new one, which has to be announced to the admission. */
export async function givePlan(tx: Queries, userId: string, livemode: boolean, plan: string): Promise<boolean> {
  const changed = await tx`UPDATE users SET plan = ${plan} WHERE id = ${userId} AND plan <> ${plan} RETURNING id`;
  await tx`
    UPDATE billing_customers SET plan = ${plan}, announced = announced AND ${changed.length === 0}
    WHERE user_id = ${userId} AND livemode = ${livemode}`;
  return changed.length > 0;
}

/** The customer is gone at Stripe: the user's next purchase makes another. */
export async function forgetCustomer(tx: Queries, userId: string, livemode: boolean): Promise<void> {
  await tx`
    UPDATE billing_customers SET customer_id = NULL, generation = generation + 1
    WHERE user_id = ${userId} AND livemode = ${livemode}`;
  await tx`
    UPDATE billing_checkouts SET closed_at = now()
    WHERE user_id = ${userId} AND livemode = ${livemode} AND closed_at IS NULL`;
}

export async function isEventApplied(sql: Queries, eventId: string): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    SELECT EXISTS (SELECT FROM billing_events WHERE id = ${eventId}) AS found`;
  return row?.found === true;
}

export async function recordEvents(
  tx: Queries,
  events: readonly { readonly id: string; readonly type: string }[],
): Promise<void> {
  for (const { id, type } of events) {
    await tx`INSERT INTO billing_events (id, type) VALUES (${id}, ${type}) ON CONFLICT (id) DO NOTHING`;
  }
}

export async function markAnnounced(sql: Queries, userId: string, livemode: boolean, plan: string): Promise<boolean> {
  const rows = await sql`
    UPDATE billing_customers b SET announced = true FROM users u
    WHERE b.user_id = ${userId} AND b.livemode = ${livemode} AND u.id = b.user_id AND u.plan = ${plan}
    RETURNING b.user_id`;
  return rows.length > 0;
}

export async function findUnannounced(sql: Queries, livemode: boolean, limit: number): Promise<string[]> {
  const rows = await sql<{ user_id: string }[]>`
    SELECT user_id FROM billing_customers WHERE NOT announced AND livemode = ${livemode} LIMIT ${limit}`;
  return rows.map(({ user_id }) => user_id);
}

/** Customers after this user, in the order of user ids. */
export async function nextCustomers(
  sql: Queries,
  livemode: boolean,
  afterUserId: string,
  limit: number,
): Promise<string[]> {
  const rows = await sql<{ user_id: string }[]>`
    SELECT user_id FROM billing_customers
    WHERE livemode = ${livemode} AND customer_id IS NOT NULL AND user_id > ${afterUserId}
    ORDER BY user_id LIMIT ${limit}`;
  return rows.map(({ user_id }) => user_id);
}

export async function countCustomers(sql: Queries, livemode: boolean): Promise<number> {
  const [row] = await sql<{ customers: number }[]>`
    SELECT count(*)::int AS customers FROM billing_customers
    WHERE livemode = ${livemode} AND customer_id IS NOT NULL`;
  return row?.customers ?? 0;
}

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
