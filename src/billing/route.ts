// /web/billing/**: what the signed-in user pays for, and the ways to change it; and POST /webhooks/stripe: what happened is read from Stripe again, once per event.
import { z } from 'zod';
import { Failure, Unavailable } from '../errors.js';
import { type CallerRoute, callerRoute, type GuardedOperation } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, readJson, readOptionalJson, receiveBytes } from '../http/json.js';
import { jsonAnswer, jsonBody, type Operation } from '../http/openapi.js';
import { type Route, route } from '../http/router.js';
import type { Reply } from '../http/wire.js';
import { WEBHOOK_BODY_BYTES } from '../limits.js';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { createRate } from '../waiting/limiter.js';
import { type Billing, State } from './billing.js';
import { findUser, isEventApplied } from './records.js';
import { answering } from './stripe.js';

const checkoutBody = z.strictObject({ plan: z.string().min(1).max(32) }).meta({ id: 'NewCheckout' });
const syncBody = z
  .strictObject({
    checkoutSessionId: z
      .string()
      .regex(/^cs_(test|live)_[A-Za-z0-9]{1,200}$/, 'must look like cs_live_... or cs_test_...')
      .optional(),
  })
  .meta({ id: 'BillingSync' });
const CheckoutView = z.object({ id: z.string(), url: z.url() }).meta({ id: 'Checkout' });
const PortalView = z.object({ url: z.url() }).meta({ id: 'Portal' });

/** What one account has asked of Stripe by us: Stripe counts it as ours, and events have the same places. */
const CALLS = { burst: 60, everyMs: 1_000, subjectsMax: 10_000 };

export function createBillingRoutes(billing: Billing): CallerRoute[] {
  const rate = createRate(CALLS, performance.now.bind(performance));

  /** Before the body is looked at: a service without billing says that first. */
  function begin(userId: string): void {
    billing.active();
    const waitSeconds = rate.take(userId);
    if (waitSeconds > 0) throw new Failure('tooManyRequests', '1 a second', waitSeconds);
  }

  return [
    callerRoute('GET /web/billing/me', meOperation, async ({ userId }) => jsonReply(200, await billing.me(userId))),
    callerRoute('POST /web/billing/checkout-session', checkoutOperation, async ({ userId }, exchange) => {
      begin(userId);
      const { plan } = await readJson(exchange, checkoutBody);
      return jsonReply(200, await billing.checkout(userId, plan));
    }),
    callerRoute('POST /web/billing/portal-session', portalOperation, async ({ userId }) => {
      begin(userId);
      return jsonReply(200, await billing.portal(userId));
    }),
    callerRoute('POST /web/billing/sync', syncOperation, async ({ userId }, exchange) => {
      begin(userId);
      const { checkoutSessionId } = await readOptionalJson(exchange, syncBody);
      return jsonReply(200, await billing.sync(userId, checkoutSessionId ?? null));
    }),
  ];
}

const meOperation: GuardedOperation = {
  summary: "The caller's plan, and the plans there are",
  tag: 'billing',
  responses: { 200: jsonAnswer('As last heard from Stripe.', State) },
};

const checkoutOperation: GuardedOperation = {
  summary: 'Opens a checkout at Stripe',
  description: 'A checkout for the same plan that is still open is returned again; one for another plan is ended.',
  tag: 'billing',
  requestBody: jsonBody(checkoutBody),
  responses: { 200: jsonAnswer('Send the buyer to `url`.', CheckoutView) },
  errors: ['conflict', 'tooManyRequests'],
};

const portalOperation: GuardedOperation = {
  summary: "Opens Stripe's customer portal: change or cancel the subscription, payment methods, invoices",
  tag: 'billing',
  responses: { 200: jsonAnswer('Send the customer to `url`.', PortalView) },
  errors: ['conflict', 'tooManyRequests'],
};

const syncOperation: GuardedOperation = {
  summary: "Asks Stripe what the caller has, and makes it the caller's plan",
  description: 'For the return from a checkout, which can be faster than the webhook.',
  tag: 'billing',
  requestBody: jsonBody(syncBody, { isRequired: false }),
  responses: { 200: jsonAnswer('As Stripe says now.', State) },
  errors: ['foreignCheckout', 'notFound', 'tooManyRequests'],
};

/** Every event after which a plan may be another one. All of them are about a customer. */
const EVENTS =
  /^(?:customer\.subscription|checkout\.session)\..|^(?:customer\.deleted|invoice\.(?:paid|payment_failed|payment_succeeded|voided|marked_uncollectible)|charge\.refunded)$/;

interface WebhookParts {
  readonly billing: Billing;
  readonly sql: Sql;
  readonly log: Log;
  readonly now: () => number;
}

export function createWebhookRoute(parts: WebhookParts): Route {
  return route('POST /webhooks/stripe', operation, (exchange) => answering(parts.log, () => handle(parts, exchange)));
}

async function handle({ billing, sql, log, now }: WebhookParts, exchange: Exchange): Promise<Reply> {
  const { stripe, applier } = billing.active();
  const signature = exchange.headers.get('stripe-signature');
  if (signature === undefined) throw new Failure('badRequest', 'Stripe-Signature: missing');
  const event = stripe.verifyEvent(await receiveBytes(exchange, WEBHOOK_BODY_BYTES), signature, now());
  if (event === 'unsigned') throw new Failure('badRequest', 'Stripe-Signature: not of this body, or too old');
  if (event === 'noEvent') {
    log.error("billing: Stripe's webhook sends no events that can be read: its payload style must be Snapshot");
    throw new Failure('badRequest', 'The body is no event in the payload style Snapshot');
  }
  if (event.livemode !== stripe.livemode) {
    log.error({ event: event.id, livemode: event.livemode }, "billing: an event of Stripe's other mode was refused");
    throw new Failure(
      'badRequest',
      `The event is from Stripe's ${event.livemode ? 'live' : 'test'} mode, our key is not`,
    );
  }
  const { type, customerId } = event;
  const userId = EVENTS.test(type) && customerId !== null ? await findUser(sql, customerId, event.livemode) : null;
  if (userId === null) return received(false);
  if (!(await isEventApplied(sql, event.id))) {
    const { changed } = await applier.apply(userId, event);
    log.info({ event: event.id, type, userId, changed }, 'billing: event applied');
  }
  try {
    // Also of an event that was applied before: that may have been the last thing its process did.
    await applier.announce(userId);
  } catch (error) {
    log.warn({ userId, err: error }, 'billing: a plan could not be announced to the admission');
    throw new Unavailable('quotaStoreDown');
  }
  return received(true);
}

function received(applied: boolean): Reply {
  const answer: z.infer<typeof Answer> = { received: true, applied };
  return jsonReply(200, answer);
}

const Answer = z.object({ received: z.literal(true), applied: z.boolean() }).meta({ id: 'StripeEventAnswer' });

const operation: Operation = {
  summary: 'Takes events from Stripe',
  description:
    'Signed by Stripe over the bytes of the body, at most 300 seconds ago. An event is applied once; events of other types and ' +
    'other customers are answered with 200 and ignored. With anything but 200 Stripe sends the event again later.',
  tag: 'billing',
  who: 'anybody',
  parameters: [
    {
      name: 'Stripe-Signature',
      in: 'header',
      description: 'As Stripe makes it.',
      required: true,
      schema: { type: 'string' },
    },
  ],
  requestBody: jsonBody(z.looseObject({}).meta({ id: 'StripeEvent' })),
  responses: {
    200: jsonAnswer('Received; `applied` says whether it concerns a plan.', Answer),
  },
  errors: ['badRequest', 'bodyTooLarge', 'uploadTooSlow', 'internal', 'unavailable'],
};
