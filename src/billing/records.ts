// The billing rows in Postgres: who is which customer, and what Stripe said last; and "apply what Stripe has", the one way in which a plan follows a payment.
// Webhook, sync, checkout and reconcile use it.

import { freePlanOf, type Plan, type Plans, planOfPrice } from '../config/plans.js';
import { Failure } from '../errors.js';
import type { Log } from '../log.js';
import type { Queries, Sql } from '../store/postgres.js';
import { type CustomerState, type StripeApi, StripeProblem, type SubscriptionState } from './stripe.js';

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
async function beginReading(sql: Queries, userId: string, livemode: boolean): Promise<Reading | null> {
  const [row] = await sql<Reading[]>`
    UPDATE billing_customers SET reads_begun = reads_begun + 1
    WHERE user_id = ${userId} AND livemode = ${livemode} AND customer_id IS NOT NULL
    RETURNING reads_begun AS number, customer_id AS "customerId"`;
  return row ?? null;
}

/**
 * Takes the reading as the newest; null when a later one was applied, or the customer isn't theirs any more. Otherwise the
 * plan that billing gave last.
 */
async function takeReading(
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

async function writeSubscription(
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
async function givePlan(tx: Queries, userId: string, livemode: boolean, plan: string): Promise<boolean> {
  const changed = await tx`UPDATE users SET plan = ${plan} WHERE id = ${userId} AND plan <> ${plan} RETURNING id`;
  await tx`
    UPDATE billing_customers SET plan = ${plan}, announced = announced AND ${changed.length === 0}
    WHERE user_id = ${userId} AND livemode = ${livemode}`;
  return changed.length > 0;
}

/** The customer is gone at Stripe: the user's next purchase makes another. */
async function forgetCustomer(tx: Queries, userId: string, livemode: boolean): Promise<void> {
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

async function recordEvents(tx: Queries, events: readonly EventRow[]): Promise<void> {
  for (const { id, type } of events) {
    await tx`INSERT INTO billing_events (id, type) VALUES (${id}, ${type}) ON CONFLICT (id) DO NOTHING`;
  }
}

async function markAnnounced(sql: Queries, userId: string, livemode: boolean, plan: string): Promise<boolean> {
  const rows = await sql`
    UPDATE billing_customers b SET announced = true FROM users u
    WHERE b.user_id = ${userId} AND b.livemode = ${livemode} AND u.id = b.user_id AND u.plan = ${plan}
    RETURNING b.user_id`;
  return rows.length > 0;
}

const ANNOUNCED_AT_ONCE = 100;

export async function findUnannounced(sql: Queries, livemode: boolean): Promise<string[]> {
  const rows = await sql<{ user_id: string }[]>`
    SELECT user_id FROM billing_customers WHERE NOT announced AND livemode = ${livemode} LIMIT ${ANNOUNCED_AT_ONCE}`;
  return rows.map(({ user_id }) => user_id);
}

/** Customers of one query; a page is all that is in memory. */
export const CUSTOMERS_PAGE = 100;

/** Those after this user, in the order of user ids. */
export async function nextCustomers(sql: Queries, livemode: boolean, afterUserId: string): Promise<string[]> {
  const rows = await sql<{ user_id: string }[]>`
    SELECT user_id FROM billing_customers
    WHERE livemode = ${livemode} AND customer_id IS NOT NULL AND user_id > ${afterUserId}
    ORDER BY user_id LIMIT ${CUSTOMERS_PAGE}`;
  return rows.map(({ user_id }) => user_id);
}

export async function countCustomers(sql: Queries, livemode: boolean): Promise<number> {
  const [row] = await sql<{ customers: number }[]>`
    SELECT count(*)::int AS customers FROM billing_customers
    WHERE livemode = ${livemode} AND customer_id IS NOT NULL`;
  return row?.customers ?? 0;
}

interface CustomerRow {
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
async function prepare(sql: Sql, userId: string, livemode: boolean): Promise<CustomerRow> {
  await sql`
    INSERT INTO billing_customers AS b (user_id, livemode, email)
    SELECT id, ${livemode}, email FROM users WHERE id = ${userId}
    ON CONFLICT (user_id, livemode) DO UPDATE SET email = EXCLUDED.email
    WHERE b.customer_id IS NULL AND b.email IS NULL`;
  const [row] = await sql<CustomerRow[]>`
    SELECT customer_id AS "customerId", email, generation FROM billing_customers
    WHERE user_id = ${userId} AND livemode = ${livemode}`;
  if (row === undefined) throw new Failure('tokenInvalid');
  return row;
}

/** Tells the admission of a user's plan: from its return on the next request of any key of theirs has its limit, on every node. */
export type PlanChanged = (userId: string, plan: string) => Promise<void>;

export interface ApplierParts {
  readonly sql: Sql;
  readonly stripe: StripeApi;
  readonly plans: Plans;
  /** Null: this process can't tell the admission; one that can does it within a minute. */
  readonly planChanged: PlanChanged | null;
  readonly log: Log;
  readonly now: () => number;
}

interface Applied {
  readonly changed: boolean;
  /** There is a subscription that can still be paid for: no other one may be bought. */
  readonly holdsSubscription: boolean;
  readonly hasCustomer: boolean;
}

interface EventRow {
  readonly id: string;
  readonly type: string;
}

/**
 * `apply` reads from Stripe what the user has, after this call has begun, and makes it the user's plan; with the event's row in the same
 * transaction. It throws StripeProblem, and whatever Postgres throws; the plan is as it was then. `announce` gives the admission the user's plan, if
 * it does not have it yet; with `always` in any case. It throws what the admission throws.
 */
export type Applier = ReturnType<typeof createApplier>;

/** A plan that changes while it is announced is announced again so many times. */
const ANNOUNCEMENTS = 5;

export function createApplier(parts: ApplierParts) {
  const { sql, stripe, plans, planChanged, log, now } = parts;
  const freePlan = freePlanOf(plans).name;
  const { livemode } = stripe;

  async function applyOnce(userId: string, events: readonly EventRow[]): Promise<Applied> {
    // The number is drawn before Stripe is asked, so that of two readings the higher one knows everything the lower one does.
    const reading = await beginReading(sql, userId, livemode);
    if (reading === null) return { changed: false, holdsSubscription: false, hasCustomer: false };
    const customer = await stripe.readCustomer(reading.customerId);
    const changed = await sql.transaction('readCommitted', async (tx) => {
      // First of all, so that no other transaction writes of this user: two that record the same events in different orders would wait for each other.
      await tx`SELECT FROM billing_customers WHERE user_id = ${userId} AND livemode = ${livemode} FOR UPDATE`;
      await recordEvents(tx, events);
      const taken = await takeReading(tx, userId, livemode, reading);
      // A later reading was faster: it has seen what these events tell of.
      return taken !== null && (await write(tx, userId, reading, customer, taken.givenPlan));
    });
    return {
      changed,
      holdsSubscription: customer.kind === 'present' && customer.subscriptions.some(({ status }) => OPEN.has(status)),
      hasCustomer: customer.kind === 'present',
    };
  }

  async function write(
    tx: Queries,
    userId: string,
    { customerId }: Reading,
    customer: CustomerState,
    givenPlan: string | null,
  ): Promise<boolean> {
    const decision: Decision =
      customer.kind === 'deleted' ? { kind: 'never' } : decide(plans, customer.subscriptions, now());
    await writeSubscription(tx, userId, livemode, decision.kind === 'never' ? null : decision.subscription);
    if (customer.kind === 'deleted') await forgetCustomer(tx, userId, livemode);
    switch (decision.kind) {
      case 'paid':
        return await givePlan(tx, userId, livemode, decision.plan.name);
      case 'unknownPrice':
        log.error(
          { userId, customerId, prices: decision.subscription.priceIds },
          'billing: a paid subscription has a price that STRIPE_PRICES does not name; the plan stays as it is',
        );
        return false;
      case 'never':
      case 'ended':
        // Only what billing gave is taken: another plan was somebody's decision, and an end takes effect once.
        if (givenPlan === null || givenPlan === freePlan) return false;
        return await givePlan(tx, userId, livemode, freePlan);
    }
  }

  async function announce(userId: string, { always } = { always: false }): Promise<void> {
    if (planChanged === null) return;
    for (let round = 0; round < ANNOUNCEMENTS; round += 1) {
      const record = await findRecord(sql, userId, livemode);
      if (record === null || (record.announced && !always && round === 0)) return;
      await planChanged(userId, record.plan);
      // Another process may have announced a newer plan before us: then our announcement was the last one, and it was old.
      if (await markAnnounced(sql, userId, livemode, record.plan)) return;
    }
    log.warn({ userId }, 'billing: the plan changed again and again while it was announced to the admission');
  }

  return { apply: coalesce(applyOnce), announce };
}

interface ReadingTurn {
  readonly running: Promise<Applied>;
  next: { readonly events: EventRow[]; readonly result: Promise<Applied> } | null;
}

/** One reading per user at a time in this process; calls that come meanwhile share the next one, which begins after them. */
function coalesce(applyOnce: (userId: string, events: readonly EventRow[]) => Promise<Applied>) {
  const turns = new Map<string, ReadingTurn>();

  function begin(userId: string, events: readonly EventRow[]): Promise<Applied> {
    const running = applyOnce(userId, events);
    const turn: ReadingTurn = { running, next: null };
    turns.set(userId, turn);
    const leave = (): void => {
      if (turn.next === null) turns.delete(userId);
    };
    running.then(leave, leave);
    return running;
  }

  function follow(userId: string, turn: ReadingTurn): { events: EventRow[]; result: Promise<Applied> } {
    const events: EventRow[] = [];
    const start = (): Promise<Applied> => begin(userId, events);
    return { events, result: turn.running.then(start, start) };
  }

  return (userId: string, event?: EventRow): Promise<Applied> => {
    const added = event === undefined ? [] : [event];
    const turn = turns.get(userId);
    if (turn === undefined) return begin(userId, added);
    turn.next ??= follow(userId, turn);
    turn.next.events.push(...added);
    return turn.next.result;
  };
}

/** While a payment is retried the plan stays, for so long from the start of the period that isn't paid. */
const GRACE_SECONDS = 7 * 24 * 3600;

type Decision =
  /** There was never a subscription: the plan is not billing's. */
  | { readonly kind: 'never' }
  | { readonly kind: 'paid'; readonly plan: Plan; readonly subscription: SubscriptionState }
  | { readonly kind: 'ended'; readonly subscription: SubscriptionState }
  /** It is paid, for something that the configuration doesn't know: the plan stays until somebody looks. */
  | { readonly kind: 'unknownPrice'; readonly subscription: SubscriptionState };

function decide(plans: Plans, subscriptions: readonly SubscriptionState[], nowMs: number): Decision {
  const newestFirst = [...subscriptions].sort((one, other) => other.createdSeconds - one.createdSeconds);
  const [newest] = newestFirst;
  if (newest === undefined) return { kind: 'never' };
  const counting = newestFirst.filter((subscription) => counts(subscription, nowMs / 1000));
  let best: Extract<Decision, { kind: 'paid' }> | null = null;
  for (const subscription of counting) {
    for (const priceId of subscription.priceIds) {
      const plan = planOfPrice(plans, priceId);
      if (plan === null || (best !== null && plan.hourlyLimit <= best.plan.hourlyLimit)) continue;
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

/** Statuses of a subscription that can still be paid for: a user with one changes it in the portal and doesn't buy another. */
const OPEN: ReadonlySet<string> = new Set(['active', 'trialing', 'past_due', 'unpaid', 'paused']);
