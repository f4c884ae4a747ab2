// Stripe's API through its own package, which no other file knows: bounded in time, retries and calls at once, version pinned; the few facts that
// are read, in our own words, and the problem that stands for all of its errors.
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import type Stripe from 'stripe';
import { z } from 'zod';
import type { BillingSettings } from '../config/config.js';
import { codeOf } from '../error-text.js';
import { Unavailable } from '../errors.js';
import { fetch } from '../http/fetch.js';
import type { Log } from '../log.js';
import { createLimiter } from '../waiting/limiter.js';

export interface SubscriptionState {
  readonly id: string;
  /** Stripe's word: active, trialing, past_due, canceled, unpaid, paused, incomplete, incomplete_expired. */
  readonly status: string;
  readonly createdSeconds: number;
  readonly priceIds: readonly string[];
  readonly periodStartSeconds: number;
  readonly periodEndSeconds: number;
  readonly cancelAtPeriodEnd: boolean;
  /** Every payment of its latest invoice was given back in full. */
  readonly refunded: boolean;
}

export type CustomerState =
  | { readonly kind: 'deleted' }
  /** Its subscriptions of any status, newest first. */
  | { readonly kind: 'present'; readonly subscriptions: readonly SubscriptionState[] };

export interface CheckoutSession {
  readonly id: string;
  readonly status: 'open' | 'complete' | 'expired';
  /** Null unless it is open. */
  readonly url: string | null;
  readonly customerId: string | null;
}

export const Price = z.object({
  amount: z.int().describe("in the currency's smallest unit"),
  currency: z.string().describe('ISO 4217, lower case'),
  interval: z.string().nullable().describe('day, week, month or year'),
});
export type Price = z.infer<typeof Price>;

/** An event that Stripe signed. Nothing of its content is believed but whom it is about. */
export interface SignedEvent {
  readonly id: string;
  readonly type: string;
  readonly livemode: boolean;
  readonly customerId: string | null;
}

/** `unsigned`: not with our secret, or too long ago. `noEvent`: signed, and none that we can read. */
type EventProblem = 'unsigned' | 'noEvent';

interface NewCustomer {
  readonly userId: string;
  readonly email: string;
  readonly idempotencyKey: string;
}

interface NewCheckout {
  readonly attemptId: string;
  readonly userId: string;
  readonly customerId: string;
  readonly priceId: string;
  /** Without a slash at its end. */
  readonly returnBase: string;
  readonly expiresAtSeconds: number;
}

/** Every call throws StripeProblem and nothing else. */
export type StripeApi = ReturnType<typeof createStripeApi>;

interface StripeProblemFacts {
  /** `unreachable`: it may work later; `busy`: too many calls of ours; `missing`: no such thing there; `refused`: anything else. */
  readonly kind: 'unreachable' | 'busy' | 'missing' | 'refused';
  readonly call: string;
  readonly status: number | null;
  readonly code: string | null;
  readonly requestId: string | null;
  /** The answer is the one that was recorded for this idempotency key: the same try can't end otherwise. */
  readonly replayed: boolean;
  /** Why there was no answer, as a code or the name of an error; null when there was one. */
  readonly cause: string | null;
}

/** Facts that may be logged; Stripe's own message can quote what was sent, so it is not among them. */
export class StripeProblem extends Error {
  readonly facts: StripeProblemFacts;

  constructor(facts: StripeProblemFacts) {
    super(`Stripe: ${facts.call}: ${facts.kind}`);
    this.name = 'StripeProblem';
    this.facts = facts;
  }
}

/** At the first use and not at import: it takes a tenth of a server's start, which most do without billing. */
function stripePackage(): typeof Stripe {
  const loaded: typeof Stripe = createRequire(import.meta.url)('stripe');
  return loaded;
}

/** What our parsing was written for. The package's types are those of this version: a newer package doesn't compile until it is looked at. */
const API_VERSION = '2026-10-28.endive';
/** One try, from connecting to the last byte. */
const TIMEOUT_MS = 6_000;
/** Further tries after a failure that may pass, half a second and more apart, with the same idempotency key. */
const RETRIES = 2;
/** Stripe allows 100 requests a second in live mode, and 25 in test mode. */
const CALLS_AT_ONCE = 24;
const CALLS_WAITING = 1_000;
const CALL_WAIT_MS = 5_000;
/** Stripe's largest page. A customer's older subscriptions have ended long ago. */
const SUBSCRIPTIONS_READ = 100;
/** Subscriptions of one customer that are asked for their payments; there should be one. */
const REFUNDS_READ = 5;
/** A signature older than this is refused, so that a recorded event can't be played again. */
const SIGNATURE_TOLERANCE_SECONDS = 300;
/** Of our clock and Stripe's: what was signed later than this from now is refused. */
const CLOCKS_APART_SECONDS = 10;

interface StripeSettings extends Omit<BillingSettings, 'returnBase'> {
  readonly timeoutMs?: number;
}

export function createStripeApi({ secretKey, webhookSecret, apiBase, timeoutMs }: StripeSettings) {
  const base = new URL(apiBase);
  const packaged = stripePackage();
  const stripe = new packaged(secretKey, {
    apiVersion: API_VERSION,
    maxNetworkRetries: RETRIES,
    timeout: timeoutMs ?? TIMEOUT_MS,
    telemetry: false,
    host: base.hostname,
    port: base.port === '' ? defaultPort(base) : base.port,
    protocol: base.protocol === 'http:' ? 'http' : 'https',
    // Its timeout is for the whole answer; that of Node's client starts again with every byte.
    httpClient: packaged.createFetchHttpClient(fetch),
  });
  const call = createCalls();
  return {
    livemode: /^(sk|rk)_live_/.test(secretKey),
    ...customersOf(stripe, call),
    ...checkoutsOf(stripe, call),
    /** Null: it has no single amount. */
    async readPrice(priceId: string): Promise<Price | null> {
      const price = await call('read price', () => stripe.prices.retrieve(priceId));
      if (price.unit_amount === null) return null;
      return { amount: price.unit_amount, currency: price.currency, interval: price.recurring?.interval ?? null };
    },
    verifyEvent(body: Buffer, signature: string, nowMs: number): SignedEvent | EventProblem {
      // The verifier decodes the bytes first: of these, other bytes could have become the same text.
      if (!isUtf8(body) || body.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)) return 'unsigned';
      if (!isTimely(signature, nowMs)) return 'unsigned';
      try {
        const tolerance = SIGNATURE_TOLERANCE_SECONDS;
        return eventOf(stripe.webhooks.constructEvent(body, signature, webhookSecret, tolerance, undefined, nowMs));
      } catch (error) {
        // Otherwise the signature is right, and what it signs is no JSON, or an event of the other kind (`v2.core.event`).
        return error instanceof packaged.errors.StripeSignatureVerificationError ? 'unsigned' : 'noEvent';
      }
    },
  };
}

/** Makes a call by its name; throws StripeProblem. */
type Call = <T>(name: string, work: () => Promise<T>) => Promise<T>;

function createCalls(): Call {
  const limiter = createLimiter({ running: CALLS_AT_ONCE, waiting: CALLS_WAITING, waitMs: CALL_WAIT_MS });
  return (name, work) =>
    limiter.run(
      () => work().catch((error: unknown) => Promise.reject(problemOf(name, error))),
      () => new StripeProblem({ ...nothingKnown, kind: 'busy', call: name }),
    );
}

function customersOf(stripe: Stripe, call: Call) {
  async function readSubscriptions(customerId: string): Promise<SubscriptionState[]> {
    const { data } = await call('list subscriptions', () =>
      stripe.subscriptions.list({ customer: customerId, status: 'all', limit: SUBSCRIPTIONS_READ }),
    );
    let refundsLeft = REFUNDS_READ;
    const states: SubscriptionState[] = [];
    for (const subscription of data) {
      const invoice = idOf(subscription.latest_invoice);
      const isPaidFor = subscription.status === 'active' || subscription.status === 'past_due';
      const asks = isPaidFor && invoice !== null && refundsLeft > 0;
      if (asks) refundsLeft -= 1;
      states.push(stateOf(subscription, asks && (await isRefunded(invoice))));
    }
    return states;
  }

  async function isRefunded(invoice: string): Promise<boolean> {
    const { data } = await call('list invoice payments', () =>
      stripe.invoicePayments.list({
        invoice,
        status: 'paid',
        expand: ['data.payment.payment_intent.latest_charge', 'data.payment.charge'],
      }),
    );
    return data.length > 0 && data.every(({ payment }) => chargeOf(payment)?.refunded === true);
  }

  return {
    async createCustomer({ userId, email, idempotencyKey }: NewCustomer): Promise<string> {
      const { id } = await call('create customer', () =>
        stripe.customers.create({ email, metadata: { sluice_user: userId } }, { idempotencyKey }),
      );
      return id;
    },
    async readCustomer(customerId: string): Promise<CustomerState> {
      const customer = await call('read customer', () => stripe.customers.retrieve(customerId));
      if (customer.deleted === true) return { kind: 'deleted' };
      return { kind: 'present', subscriptions: await readSubscriptions(customerId) };
    },
    async createPortal(customerId: string, returnUrl: string): Promise<string> {
      // Every call is an attempt of its own: a portal session buys nothing. The package's retries share the key.
      const options = { idempotencyKey: `portal-${randomUUID()}` };
      const { url } = await call('create portal session', () =>
        stripe.billingPortal.sessions.create({ customer: customerId, return_url: returnUrl }, options),
      );
      return url;
    },
  };
}

function checkoutsOf(stripe: Stripe, call: Call) {
  return {
    async createCheckout(checkout: NewCheckout): Promise<CheckoutSession> {
      const session = await call('create checkout session', () =>
        stripe.checkout.sessions.create(
          {
            mode: 'subscription',
            customer: checkout.customerId,
            client_reference_id: checkout.userId,
            line_items: [{ price: checkout.priceId, quantity: 1 }],
            // Stripe puts the id in; the dashboard hands it to /web/billing/sync.
            success_url: `${checkout.returnBase}/billing?checkoutSessionId={CHECKOUT_SESSION_ID}`,
            cancel_url: `${checkout.returnBase}/billing`,
            expires_at: checkout.expiresAtSeconds,
          },
          { idempotencyKey: `checkout-${checkout.attemptId}` },
        ),
      );
      return sessionOf(session);
    },
    /** Null: no such session. */
    async readCheckout(sessionId: string): Promise<CheckoutSession | null> {
      try {
        return sessionOf(await call('read checkout session', () => stripe.checkout.sessions.retrieve(sessionId)));
      } catch (error) {
        if (error instanceof StripeProblem && error.facts.kind === 'missing') return null;
        throw error;
      }
    },
    async expireCheckout(sessionId: string): Promise<void> {
      const options = { idempotencyKey: `expire-${sessionId}` };
      await call('expire checkout session', () => stripe.checkout.sessions.expire(sessionId, {}, options));
    },
  };
}

/** The package reads any text as a time, and compares the age alone: of no number it has none, and of the future a negative one. */
function isTimely(signature: string, nowMs: number): boolean {
  const times = signature.split(',').filter((element) => element.startsWith('t='));
  const [time] = times.map((element) => (/^t=\d{1,12}$/.test(element) ? Number(element.slice(2)) : Number.NaN));
  return times.length === 1 && time !== undefined && time - nowMs / 1000 <= CLOCKS_APART_SECONDS;
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const nothingKnown = { status: null, code: null, requestId: null, replayed: false, cause: null };

const defaultPort = (base: URL): string => (base.protocol === 'http:' ? '80' : '443');

function problemOf(call: string, error: unknown): StripeProblem {
  if (error instanceof StripeProblem) return error;
  // Not from the package, so not about Stripe's answer: a bug, which shall surface as one.
  if (!(error instanceof stripePackage().errors.StripeError)) throw error;
  const status = error.statusCode ?? null;
  const passes = status === null || status >= 500 || status === 409 || status === 429;
  return new StripeProblem({
    kind: error.code === 'resource_missing' ? 'missing' : passes ? 'unreachable' : 'refused',
    call,
    status,
    code: error.code ?? null,
    requestId: error.requestId ?? null,
    replayed: error.headers?.['idempotent-replayed'] === 'true',
    cause: causeOf(error.detail),
  });
}

/** Of a call that got no answer: the code of the system or of the client below, which quotes nothing. */
function causeOf(detail: unknown): string | null {
  if (!(detail instanceof Error)) return null;
  return codeOf(detail) ?? causeOf(detail.cause) ?? detail.name;
}

function idOf(reference: string | { readonly id?: string } | null): string | null {
  return typeof reference === 'string' ? reference : (reference?.id ?? null);
}

function stateOf(subscription: Stripe.Subscription, refunded: boolean): SubscriptionState {
  const items = subscription.items.data;
  return {
    id: subscription.id,
    status: subscription.status,
    createdSeconds: subscription.created,
    priceIds: items.map(({ price }) => price.id),
    periodStartSeconds: Math.max(0, ...items.map((item) => item.current_period_start)),
    periodEndSeconds: Math.max(0, ...items.map((item) => item.current_period_end)),
    // The portal may set the one or the other.
    cancelAtPeriodEnd: subscription.cancel_at_period_end || subscription.cancel_at !== null,
    refunded,
  };
}

function chargeOf(payment: Stripe.InvoicePayment.Payment): Stripe.Charge | null {
  const intent = payment.payment_intent;
  const charge = typeof intent === 'object' ? intent.latest_charge : payment.charge;
  return typeof charge === 'object' ? charge : null;
}

function sessionOf({ id, status, url, customer }: Stripe.Checkout.Session): CheckoutSession {
  // What can't be paid any more is as good as expired, whatever it will be called.
  const known = status === 'open' ? 'open' : status === 'complete' ? 'complete' : 'expired';
  return { id, status: known, url, customerId: idOf(customer) };
}

const signedEvent = z.object({
  id: z.string().regex(/^evt_[A-Za-z0-9_]{1,200}$/),
  type: z.string().max(200),
  livemode: z.boolean(),
  data: z.object({
    object: z.object({
      id: z.string().optional(),
      object: z.string(),
      customer: z.union([z.string(), z.object({ id: z.string() })]).nullish(),
    }),
  }),
});

function eventOf(value: unknown): SignedEvent | EventProblem {
  const { data: event } = signedEvent.safeParse(value);
  if (event === undefined) return 'noEvent';
  const { object, id, customer } = event.data.object;
  const customerId = object === 'customer' ? (id ?? null) : idOf(customer ?? null);
  return { id: event.id, type: event.type, livemode: event.livemode, customerId };
}

/** Runs a handler's work; throws Failure for what is foreseen, and anything else as it is. */
export async function answering<T>(log: Log, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StripeProblem)) throw error;
    logProblem(log, error);
    throw new Unavailable(UNAVAILABLE[error.facts.kind]);
  }
}

const UNAVAILABLE = {
  busy: 'stripeBusy',
  unreachable: 'stripeDown',
  missing: 'stripeRefuses',
  refused: 'stripeRefuses',
} as const;

export function logProblem(log: Log, { facts }: StripeProblem): void {
  if (facts.kind === 'refused' || facts.kind === 'missing') log.error(facts, 'billing: Stripe refuses a request');
  else log.warn(facts, 'billing: Stripe can not be asked');
}
