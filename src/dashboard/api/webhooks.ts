// Webhooks and their deliveries: what the service answers, checked as it comes in, and what pages ask for.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { z } from 'zod/mini';
import { ask } from './client.ts';
import { asked } from './queries.ts';

export const events = ['scan.completed', 'scan.infected', 'scan.failed'] as const;
export type EventName = (typeof events)[number];

const webhookFields = {
  id: z.string(),
  url: z.string(),
  events: z.array(z.enum(events)),
  enabled: z.boolean(),
  /** Why the service has switched it off; null: it hasn't. */
  notice: z.nullable(z.string()),
  failingSince: z.nullable(z.string()),
  creationDate: z.string(),
};
export const Webhook = z.object(webhookFields);
export type Webhook = z.infer<typeof Webhook>;
export const WebhookWithSecret = z.object({ ...webhookFields, secret: z.string() });

export const TestResult = z.object({
  delivered: z.boolean(),
  status: z.nullable(z.number()),
  error: z.nullable(z.string()),
  durationMillis: z.number(),
});
export type TestResult = z.infer<typeof TestResult>;

export const deliveryStates = ['waiting', 'delivered', 'failed'] as const;
export type DeliveryState = (typeof deliveryStates)[number];
const Delivery = z.object({
  id: z.string(),
  event: z.enum(events),
  scanId: z.string(),
  state: z.enum(deliveryStates),
  attempts: z.number(),
  nextAttempt: z.nullable(z.string()),
  status: z.nullable(z.number()),
  error: z.nullable(z.string()),
  lastUpdate: z.string(),
});
export type Delivery = z.infer<typeof Delivery>;
const Deliveries = z.object({ content: z.array(Delivery), next: z.nullable(z.string()) });

export const PATH = '/web/webhooks';
/** Deliveries come and go while one looks. */
const LIVE_MS = 5_000;

export const webhooksQuery = queryOptions({
  queryKey: ['webhooks'],
  queryFn: ({ signal }) => ask({ path: PATH, shape: z.array(Webhook), signal }),
  refetchInterval: LIVE_MS,
});

export function webhookQuery(id: string) {
  return queryOptions({
    ...asked(['webhooks', id], `${PATH}/${encodeURIComponent(id)}`, Webhook),
    refetchInterval: LIVE_MS,
  });
}

/** The newest first, in pages. */
export function deliveriesQuery(id: string, state: DeliveryState | null) {
  return infiniteQueryOptions({
    queryKey: ['webhooks', id, 'deliveries', state],
    queryFn({ pageParam, signal }) {
      const query = new URLSearchParams();
      if (state !== null) query.set('state', state);
      if (pageParam !== null) query.set('cursor', pageParam);
      return ask({ path: `${PATH}/${encodeURIComponent(id)}/deliveries?${query}`, shape: Deliveries, signal });
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    refetchInterval: LIVE_MS,
  });
}
