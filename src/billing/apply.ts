// "Apply what Stripe has": the one way in which a plan follows a payment. Webhook, sync, checkout and reconcile use it.
import { freePlanOf, type Plans } from '../config/plans.js';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { type Decision, decide, isOpen } from './prices.js';
import {
  beginReading,
  findRecord,
  forgetCustomer,
  givePlan,
  lockUser,
  markAnnounced,
  type Reading,
  recordEvents,
  type SubscriptionRow,
  takeReading,
  writeSubscription,
} from './records.js';
import type { CustomerState, StripeApi } from './shapes.js';

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

export interface Applied {
  /** The user has a new plan. */
  readonly changed: boolean;
  /** There is a subscription that can still be paid for: no other one may be bought. */
  readonly holdsSubscription: boolean;
  readonly hasCustomer: boolean;
}

export interface EventRow {
  readonly id: string;
  readonly type: string;
}

export interface Applier {
  /**
   * Reads from Stripe what the user has, after this call has begun, and makes it the user's plan; with the event's row in the
   * same transaction. Throws StripeProblem, and whatever Postgres throws; the plan is as it was then.
   */
  apply(userId: string, event?: EventRow): Promise<Applied>;
  /** Gives the admission the user's plan, if it does not have it yet; with `always` in any case. Throws what the admission throws. */
  announce(userId: string, options?: { readonly always: boolean }): Promise<void>;
}

/** A plan that changes while it is announced is announced again so many times. */
const ANNOUNCEMENTS = 5;

export function createApplier(parts: ApplierParts): Applier {
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
    await writeSubscription(tx, userId, livemode, rowOf(decision));
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

function rowOf(decision: Decision): SubscriptionRow | null {
  if (decision.kind === 'never') return null;
  const { subscription } = decision;
  return {
    subscriptionId: subscription.id,
    status: subscription.status,
    refunded: subscription.refunded,
    currentPeriodEnd: subscription.periodEndSeconds === 0 ? null : new Date(subscription.periodEndSeconds * 1000),
    cancelAtPeriodEnd: subscription.cancelAtPeriodEnd,
  };
}

interface Turn {
  readonly running: Promise<Applied>;
  next: { readonly events: EventRow[]; readonly result: Promise<Applied> } | null;
}

/** One reading per user at a time in this process; calls that come meanwhile share the next one, which begins after them. */
function coalesce(applyOnce: (userId: string, events: readonly EventRow[]) => Promise<Applied>): Applier['apply'] {
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

  return (userId, event) => {
    const added = event === undefined ? [] : [event];
    const turn = turns.get(userId);
    if (turn === undefined) return begin(userId, added);
    turn.next ??= follow(userId, turn);
    turn.next.events.push(...added);
    return turn.next.result;
  };
}
