// "Apply what Stripe has": the one way in which a plan follows a payment, and which plan that is. Webhook, sync, checkout and reconcile use it.
import { freePlanOf, type Plan, type Plans, planOfPrice } from '../config/plans.js';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import {
  beginReading,
  findRecord,
  forgetCustomer,
  givePlan,
  lockUser,
  markAnnounced,
  type Reading,
  recordEvents,
  takeReading,
  writeSubscription,
} from './records.js';
import type { CustomerState, StripeApi, SubscriptionState } from './stripe.js';

/** Tells the admission of a user's plan: from its return on the next request of any key of theirs has its limit, on every node. */
export type PlanChanged = (userId: string, plan: string) => Promise<void>;

interface ApplierParts {
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
      // First of all: two transactions that record the same events in different orders would wait for each other.
      await lockUser(tx, userId, livemode);
      await recordEvents(tx, events);
      const taken = await takeReading(tx, userId, livemode, reading);
      // A later reading was faster: it has seen what these events tell of.
      if (taken === null) return false;
      return await write(userId, reading, customer, taken.givenPlan, tx);
    });
    return {
      changed,
      holdsSubscription: customer.kind === 'present' && customer.subscriptions.some(({ status }) => isOpen(status)),
      hasCustomer: customer.kind === 'present',
    };
  }

  async function write(
    userId: string,
    { customerId }: Reading,
    customer: CustomerState,
    givenPlan: string | null,
    tx: Parameters<typeof givePlan>[0],
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

interface Turn {
  readonly running: Promise<Applied>;
  next: { readonly events: EventRow[]; readonly result: Promise<Applied> } | null;
}

/** One reading per user at a time in this process; calls that come meanwhile share the next one, which begins after them. */
function coalesce(applyOnce: (userId: string, events: readonly EventRow[]) => Promise<Applied>) {
  const turns = new Map<string, Turn>();

  function begin(userId: string, events: readonly EventRow[]): Promise<Applied> {
    const running = applyOnce(userId, events);
    const turn: Turn = { running, next: null };
    turns.set(userId, turn);
    const leave = (): void => {
      if (turn.next === null) turns.delete(userId);
    };
    running.then(leave, leave);
    return running;
  }

  function follow(userId: string, turn: Turn): { events: EventRow[]; result: Promise<Applied> } {
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
function isOpen(status: string | null): boolean {
  return status !== null && ['active', 'trialing', 'past_due', 'unpaid', 'paused'].includes(status);
}
