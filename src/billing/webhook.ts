// POST /webhooks/stripe: Stripe says that something happened; who it happened to is read from Stripe again, once per event.
import { z } from 'zod';
import { Failure, Unavailable } from '../errors.js';
import type { Exchange, Reply } from '../http/exchange.js';
import { jsonReply, receiveBytes } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import type { Route } from '../http/router.js';
import { jsonAnswer, jsonBody } from '../http/schema.js';
import { WEBHOOK_BODY_BYTES } from '../limits.js';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import type { Billing } from './billing.js';
import { answering } from './failures.js';
import { findUser, isEventApplied } from './records.js';
import type { SignedEvent } from './shapes.js';

/** Every event after which a plan may be another one. All of them are about a customer. */
const EVENTS =
  /^(customer\.(deleted|subscription\..+)|checkout\.session\..+|invoice\.(paid|payment_failed|payment_succeeded|voided|marked_uncollectible)|charge\.refunded)$/;

export interface WebhookParts {
  readonly billing: Billing;
  readonly sql: Sql;
  readonly log: Log;
  readonly now: () => number;
}

export function createWebhookRoute(parts: WebhookParts): Route {
  return {
    method: 'POST',
    path: '/webhooks/stripe',
    operation,
    handle: (exchange) => answering(parts.log, () => handle(parts, exchange)),
  };
}

async function handle({ billing, sql, log, now }: WebhookParts, exchange: Exchange): Promise<Reply> {
  const { stripe, applier } = billing.active();
  const signature = exchange.headers.get('stripe-signature');
  if (signature === undefined) throw new Failure('badRequest', 'Stripe-Signature: missing');
  const event = stripe.verifyEvent(await receiveBytes(exchange, WEBHOOK_BODY_BYTES), signature, now());
  if (event === null) throw new Failure('badRequest', 'Stripe-Signature: not of this body, or too old');
  if (event.livemode !== stripe.livemode) {
    log.error({ event: event.id, livemode: event.livemode }, "billing: an event of Stripe's other mode was refused");
    throw new Failure(
      'badRequest',
      `The event is from Stripe's ${event.livemode ? 'live' : 'test'} mode, our key is not`,
    );
  }
  const userId = await userOf(event);
  if (userId === null) return received(false);
  if (!(await isEventApplied(sql, event.id))) {
    const { changed } = await applier.apply(userId, event);
    log.info({ event: event.id, type: event.type, userId, changed }, 'billing: event applied');
  }
  try {
    // Also of an event that was applied before: that may have been the last thing its process did.
    await applier.announce(userId);
  } catch (error) {
    log.warn({ userId, err: error }, 'billing: a plan could not be announced to the admission');
    throw new Unavailable('quotaStoreDown');
  }
  return received(true);

  async function userOf({ type, customerId, livemode }: SignedEvent): Promise<string | null> {
    return EVENTS.test(type) && customerId !== null ? await findUser(sql, customerId, livemode) : null;
  }
}

function received(applied: boolean): Reply {
  const answer: z.infer<typeof Answer> = { received: true, applied };
  return jsonReply(200, answer);
}

const Answer = z.object({ received: z.literal(true), applied: z.boolean() });

const operation: Operation = {
  summary: 'Takes events from Stripe',
  description:
    'Signed by Stripe over the bytes of the body, at most 300 seconds ago. An event is applied once; events of other types and ' +
    'other customers are answered with 200 and ignored. With anything but 200 Stripe sends the event again later.',
  tag: 'billing',
  who: 'anybody',
  parameters: [{ name: 'Stripe-Signature', in: 'header', required: true, schema: { type: 'string' } }],
  requestBody: jsonBody(z.looseObject({})),
  responses: {
    200: jsonAnswer('Received; `applied` says whether it concerns a plan.', Answer),
  },
  errors: ['badRequest', 'bodyTooLarge', 'uploadTooSlow', 'internal', 'unavailable'],
};
