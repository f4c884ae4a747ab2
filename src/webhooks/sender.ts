// Sends what waits in the outbox: a few endpoints at a time, each in its order, those that fail apart from those that don't, and no more a second than scans can spare;
// and what is sent, as it is on the wire.
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Posts } from '../download/downloads.js';
import { messageOfError } from '../error-text.js';
import { Failure } from '../errors.js';
import type { ScanView, ShownScan } from '../history/scan-view.js';
import { WireTime, wireTime } from '../wire-text.js';
import {
  type Deliveries,
  type Delivery,
  type DeliveryAttempt,
  type Endpoint,
  type Endpoints,
  EVENTS,
  type Leased,
  type ListedDelivery,
  RENEW_MS,
  signedHeaders,
} from './deliveries.js';

export interface SenderOptions {
  readonly deliveries: Deliveries;
  readonly secrets: Endpoints['secrets'];
  readonly posts: Posts;
  /** The body of a delivery; null: the scan is not in the history any more. */
  readonly bodyOf: (userId: string, delivery: Delivery) => Promise<string | null>;
  readonly onProblem: (message: string) => void;
  readonly onSwitchedOff: (webhookId: string, userId: string) => void;
}

/** Between two looks. What this process has recorded itself is looked for at once. */
const LOOK_MS = 1_000;
const SWEEP_MS = 600_000;
/** Endpoints that are sent to at once, in one process; and those of them that failed last, which may hang. */
const ENDPOINTS_AT_ONCE = 48;
const FAILING_AT_ONCE = 16;
/** Deliveries of one endpoint: at once, and until others have their turn. */
const AT_ONCE = 4;
const ROUND = 64;
/** Between two deliveries of one process: each costs the serving thread up to half a millisecond. */
const PACE_MS = 8;
const RECEIVER_MS = 10_000;
const STOP_MS = 12_000;
/** Of the outbox, among the accounts that share the connections of the store. */
export const OUTBOX = 'webhooks';

const COUNTED_AS = { delivered: 'delivered', waiting: 'failed', failed: 'givenUp' } as const;

export class Outbox {
  /** Attempts of this process: `failed`: it is tried again; `givenUp`: it was the last one. */
  readonly counts = { delivered: 0, failed: 0, givenUp: 0 };
  readonly #options: SenderOptions;
  readonly #running = new Map<string, { readonly isFailing: boolean; readonly work: Promise<void> }>();
  readonly #timers: readonly NodeJS.Timeout[];
  readonly #stopping = new AbortController();
  #looking: Promise<void> | null = null;
  #isWanted = false;
  #nextMs = 0;

  constructor(options: SenderOptions) {
    this.#options = options;
    const sweep = (): void => void options.deliveries.sweep().catch((error: unknown) => this.#tellOf(error));
    this.#timers = [
      setInterval(() => this.hurry(), LOOK_MS).unref(),
      setInterval(() => this.#renew(), RENEW_MS).unref(),
      setInterval(sweep, SWEEP_MS).unref(),
    ];
  }

  /** Something may be waiting: it looks at once, or once more behind the look that is under way. */
  hurry(): void {
    this.#isWanted = true;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null;
    });
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#stopping.abort(new Error('The server is stopping'));
    await this.#looking;
    const ended = Promise.all([...this.#running.values()].map(({ work }) => work));
    await Promise.race([ended, delay(STOP_MS, undefined, { ref: false })]);
  }

  #renew(): void {
    if (this.#running.size === 0) return;
    this.#options.deliveries.renew([...this.#running.keys()]).catch((error: unknown) => this.#tellOf(error));
  }

  #tellOf(error: unknown): void {
    this.#options.onProblem(messageOfError(error));
  }

  async #look(): Promise<void> {
    while (this.#isWanted && !this.#stopping.signal.aborted) {
      this.#isWanted = false;
      try {
        const failing = [...this.#running.values()].filter(({ isFailing }) => isFailing).length;
        const others = this.#running.size - failing;
        const { deliveries } = this.#options;
        // Each as soon as it is leased: what goes wrong with the second question leaves none of the first without a sender.
        for (const leased of await deliveries.lease(ENDPOINTS_AT_ONCE - others, false)) this.#begin(leased);
        for (const leased of await deliveries.lease(FAILING_AT_ONCE - failing, true)) this.#begin(leased);
      } catch (error) {
        this.#tellOf(error);
      }
    }
  }

  #begin(leased: Leased): void {
    const work = this.#serve(leased)
      .catch((error: unknown) => this.#tellOf(error))
      .finally(() => {
        this.#running.delete(leased.id);
        this.hurry();
      });
    this.#running.set(leased.id, { isFailing: leased.isFailing, work });
  }

  /**
   * One round of one endpoint. The first failure ends it: an endpoint that hangs has one attempt at a time, and then a rest. Where something else goes wrong
   * the endpoint is not released: it rests until the lease is over, and no attempt is counted.
   */
  async #serve(leased: Leased): Promise<void> {
    const { deliveries } = this.#options;
    const secrets = await this.#options.secrets(OUTBOX, leased.id);
    const left = [...(await deliveries.due(leased.id, leased.isFailing ? 1 : ROUND))];
    let hasFailed = false;
    const send = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        if (hasFailed || this.#stopping.signal.aborted) return;
        const attempt = await this.#attempt(leased, next, secrets);
        const state = await deliveries.attempted(leased.id, next, attempt);
        this.counts[COUNTED_AS[state]] += 1;
        if (!attempt.isDelivered) hasFailed = true;
      }
    };
    const sends = Array.from({ length: leased.isFailing ? 1 : AT_ONCE }, send);
    await Promise.all(sends).catch(async (error: unknown) => {
      left.length = 0;
      await Promise.allSettled(sends);
      throw error;
    });
    if (hasFailed && (await deliveries.failed(leased.id))) {
      this.#options.onSwitchedOff(leased.id, leased.userId);
    }
    await deliveries.release(leased.id);
  }

  async #attempt(leased: Leased, delivery: Delivery, secrets: readonly Buffer[]): Promise<DeliveryAttempt> {
    const body = await this.#options.bodyOf(leased.userId, delivery);
    if (body === null) return failedAs('The scan is not in the history any more');
    await this.#pace();
    return await post(this.#options.posts, leased.url, { id: messageId(delivery.id), body }, secrets);
  }

  async #pace(): Promise<void> {
    const nowMs = performance.now();
    this.#nextMs = Math.max(nowMs, this.#nextMs) + PACE_MS;
    if (this.#nextMs - nowMs > PACE_MS) await delay(this.#nextMs - nowMs - PACE_MS);
  }
}

/** The `webhook-id`. */
export const messageId = (deliveryId: string): string => `msg_${deliveryId}`;

const failedAs = (error: string): DeliveryAttempt => ({ isDelivered: false, status: null, error });

/** One attempt, by itself. Nothing is sent that can't be signed. */
export async function post(
  posts: Posts,
  url: string,
  message: { readonly id: string; readonly body: string },
  secrets: readonly Buffer[],
): Promise<DeliveryAttempt> {
  if (secrets.length === 0) return failedAs('The secret can not be read: rotate it');
  try {
    const headers = { ...signedHeaders(message, secrets, Date.now()), 'content-type': 'application/json' };
    const status = await posts.send(url, { headers, body: message.body }, RECEIVER_MS);
    const isDelivered = status >= 200 && status < 300;
    return { isDelivered, status, error: isDelivered ? null : `The receiver answered with status ${status}` };
  } catch (error) {
    if (error instanceof Failure) return failedAs(error.code === 'urlRejected' ? error.message : error.detail);
    throw error;
  }
}

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

export function testResult(
  { isDelivered, status, error }: DeliveryAttempt,
  durationMs: number,
): z.infer<typeof TestResult> {
  return { delivered: isDelivered, status, error, durationMillis: Math.round(durationMs) };
}

/** The body of a delivery. */
export function messageOf(event: string, scan: ShownScan, view: z.infer<typeof ScanView>): string {
  return JSON.stringify({ type: event, timestamp: wireTime(scan.lastUpdateMs), data: view });
}
