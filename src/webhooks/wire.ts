// Webhooks, their deliveries and what is sent by them, as they are on the wire.
import { z } from 'zod';
import type { ScanView, ShownScan } from '../history/scan-view.js';
import { WireTime, wireTime } from '../wire-text.js';
import type { Attempt, ListedDelivery } from './deliveries.js';
import { type Endpoint, EVENTS } from './endpoints.js';

/** As long as that of any server that takes webhooks. */
const URL_CHARACTERS = 2_048;

const Event = z
  .enum(EVENTS, { error: `must be one of ${EVENTS.join(', ')}` })
  .describe(
    '`scan.completed`: there is a verdict. `scan.infected`: it is an infection, which is said beside `scan.completed`. `scan.failed`: there is no verdict.',
  );

const events = z
  .array(Event)
  .min(1, 'must name an event')
  .max(EVENTS.length)
  .refine((named) => new Set(named).size === named.length, 'must name each event once');

const url = z
  .string()
  .max(URL_CHARACTERS, `must be at most ${URL_CHARACTERS} characters long`)
  .describe('Public http or https URL without credentials, as for URL scans.');

export const NewWebhook = z
  .strictObject({ url, events: events.default([...EVENTS]).describe('Default: all.') })
  .meta({ id: 'NewWebhook' });

export const WebhookChange = z
  .strictObject({
    url: url.optional(),
    events: events.optional(),
    enabled: z.boolean().optional().describe('True also begins anew after it was switched off.'),
  })
  .meta({ id: 'WebhookChange' });

export const WebhookView = z
  .object({
    id: z.guid(),
    url: z.string(),
    events: z.array(z.enum(EVENTS)),
    enabled: z.boolean(),
    notice: z.string().nullable().describe('Why the service has switched it off; null: it has not.'),
    failingSince: WireTime.nullable().describe(
      'When the first of the attempts was that failed in a row; null: the last one did not.',
    ),
    creationDate: WireTime,
    lastUpdate: WireTime,
  })
  .meta({ id: 'Webhook' });

export const WebhookWithSecret = WebhookView.extend({
  secret: z.string().describe('`whsec_...`, for the signatures. It is not shown again.'),
}).meta({ id: 'WebhookWithSecret' });

export const DeliveryView = z
  .object({
    id: z.guid().describe('Behind `msg_` it is the `webhook-id` of each of its attempts.'),
    event: z.enum(EVENTS),
    scanId: z.guid(),
    state: z.enum(['waiting', 'delivered', 'failed']),
    attempts: z.int().min(0),
    nextAttempt: WireTime.nullable().describe('Null: it is over.'),
    status: z.int().nullable().describe("Of the receiver's last answer; null: there was none."),
    error: z.string().nullable().describe('Why the last attempt has failed; null: it has not.'),
    creationDate: WireTime,
    lastUpdate: WireTime,
  })
  .meta({ id: 'Delivery' });

export const DeliveryPage = z
  .object({
    content: z.array(DeliveryView),
    next: z.string().nullable().describe('The `cursor` of the next page; null: there is none.'),
  })
  .meta({ id: 'DeliveryPage' });

export const TestResult = z
  .object({
    delivered: z.boolean(),
    status: z.int().nullable().describe("Of the receiver's answer; null: there is none."),
    error: z.string().nullable(),
    durationMillis: z.int().min(0),
  })
  .meta({ id: 'WebhookTest' });

/** With its secret, where it has one. */
export function webhookView<Shown extends Endpoint>({ failingSince, creationDate, lastUpdate, ...shown }: Shown) {
  return {
    ...shown,
    failingSince: failingSince === null ? null : wireTime(failingSince),
    creationDate: wireTime(creationDate),
    lastUpdate: wireTime(lastUpdate),
  };
}

export function deliveryView(delivery: ListedDelivery): z.infer<typeof DeliveryView> {
  const { number: _, nextAt, creationDate, lastUpdate, ...shown } = delivery;
  return {
    ...shown,
    nextAttempt: shown.state === 'waiting' ? wireTime(nextAt) : null,
    creationDate: wireTime(creationDate),
    lastUpdate: wireTime(lastUpdate),
  };
}

export function testResult({ isDelivered, status, error }: Attempt, durationMs: number): z.infer<typeof TestResult> {
  return { delivered: isDelivered, status, error, durationMillis: Math.round(durationMs) };
}

/** The body of a delivery. */
export function messageOf(event: string, scan: ShownScan, view: z.infer<typeof ScanView>): string {
  return JSON.stringify({ type: event, timestamp: wireTime(new Date(scan.lastUpdateMs)), data: view });
}
