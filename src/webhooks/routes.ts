// The routes of webhooks, twice: under /web/webhooks for who is signed in, and under /api/v1/webhooks for a key.
import { z } from 'zod';
import type { Posts } from '../download/downloads.js';
import { Failure } from '../errors.js';
import type { CallerRoute, GuardedOperation, KeyRoute } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, noContent, readJson, readQuery } from '../http/json.js';
import { jsonAnswer, jsonBody, pathParameter, queryInteger, queryParameters } from '../http/openapi.js';
import type { Method, PathParameters } from '../http/router.js';
import type { Reply } from '../http/wire.js';
import { timeId } from '../ids.js';
import { createRate, type RateOptions } from '../waiting/limiter.js';
import { type Deliveries, ENDPOINTS_MAX, type Endpoints } from './deliveries.js';
import {
  DeliveryPage,
  deliveryView,
  messageId,
  NewWebhook,
  post,
  TestResult,
  testResult,
  WebhookChange,
  WebhookView,
  WebhookWithSecret,
  webhookView,
} from './sender.js';

export interface WebhookRouteParts {
  readonly endpoints: Endpoints;
  readonly deliveries: Deliveries;
  readonly posts: Posts;
  /** Something is to be sent. */
  readonly hurry: () => void;
}

interface WebhookRoute {
  readonly method: Method;
  /** Behind the one of all webhooks. */
  readonly path: string;
  readonly operation: Omit<GuardedOperation, 'tag'>;
  handle(userId: string, exchange: Exchange, parameters: PathParameters): Promise<Reply>;
}

const Id = z.guid();
const PAGE_MAX = 200;
/** Of one account: each test, and each delivery that is sent again, is a request to somebody else. */
const TESTS = { burst: 5, everyMs: 2_000, subjectsMax: 10_000 };
const RETRIES = { burst: PAGE_MAX, everyMs: 2_000, subjectsMax: 10_000 };

const deliveryQuery = z.strictObject({
  state: z
    .enum(['waiting', 'delivered', 'failed'], { error: 'must be waiting, delivered or failed' })
    .optional()
    .describe('Default: all.'),
  limit: queryInteger(1, PAGE_MAX, 50).describe('Deliveries of a page.'),
  cursor: z
    .string()
    .regex(/^\d{1,15}$/, 'must be the next of a page before')
    .transform(Number)
    .optional()
    .describe('The `next` of the page before.'),
});

export function createWebhookRoutes(parts: WebhookRouteParts): { signedIn: CallerRoute[]; withKey: KeyRoute[] } {
  const routes = [...ownRoutes(parts), ...singleRoutes(parts), ...deliveryRoutes(parts)];
  return {
    signedIn: routes.map(({ method, path, operation: { id: _, ...operation }, handle }) => ({
      name: `${method} /web/webhooks${path}`,
      operation: { ...operation, tag: 'webhooks' },
      handle: ({ userId }, exchange, parameters) => handle(userId, exchange, parameters),
    })),
    withKey: routes.map(({ method, path, operation, handle }) => ({
      name: `${method} /api/v1/webhooks${path}`,
      operation: { ...operation, tag: 'webhooks' },
      handle: ({ userId }, exchange, parameters) => handle(userId, exchange, parameters),
    })),
  };
}

const idParameter = pathParameter('id', Id.describe('Of the webhook.'));

function idOf({ id }: PathParameters): string {
  const known = Id.safeParse(id);
  if (!known.success) throw new Failure('notFound', 'the webhook');
  return known.data.toLowerCase();
}

function found<T>(value: T | null): T {
  if (value === null) throw new Failure('notFound', 'the webhook');
  return value;
}

/** Throws Failure `badRequest`: what the guard says is about a field. */
function checked(posts: Posts, url: string): void {
  try {
    posts.check(url);
  } catch (error) {
    throw error instanceof Failure ? new Failure('badRequest', `url: ${error.detail}`) : error;
  }
}

/** Returns what counts one for the account, and throws Failure `tooManyRequests` where it would be too many. */
function limitedTo(limits: RateOptions): (userId: string) => void {
  const rate = createRate(limits, performance.now.bind(performance));
  return (userId) => {
    const waitSeconds = rate.take(userId);
    if (waitSeconds <= 0) return;
    const often = `${limits.burst} at once, then one every ${limits.everyMs / 1_000} seconds`;
    throw new Failure('tooManyRequests', often, waitSeconds);
  };
}

function ownRoutes({ endpoints, posts }: WebhookRouteParts): WebhookRoute[] {
  return [
    {
      method: 'GET',
      path: '',
      operation: {
        id: 'listWebhooks',
        summary: "The account's webhooks",
        responses: { 200: jsonAnswer('The oldest first.', z.array(WebhookView)) },
      },
      handle: async (userId) => jsonReply(200, (await endpoints.list(userId)).map(webhookView)),
    },
    {
      method: 'POST',
      path: '',
      operation: {
        id: 'createWebhook',
        summary: 'Make a webhook',
        description: `From the next scan on that ends, its events are sent there. An account has at most ${ENDPOINTS_MAX}.`,
        requestBody: jsonBody(NewWebhook),
        responses: { 201: jsonAnswer('With its secret.', WebhookWithSecret) },
        errors: ['conflict'],
      },
      async handle(userId, exchange) {
        const { url, events } = await readJson(exchange, NewWebhook);
        checked(posts, url);
        const created = await endpoints.create(userId, url, events);
        if (created === null) throw new Failure('conflict', `You have ${ENDPOINTS_MAX} webhooks: delete one first`);
        return jsonReply(201, webhookView(created));
      },
    },
  ];
}

function singleRoutes({ endpoints, posts, hurry }: WebhookRouteParts): WebhookRoute[] {
  return [
    {
      method: 'GET',
      path: '/{id}',
      operation: {
        id: 'getWebhook',
        summary: 'One webhook',
        parameters: [idParameter],
        responses: { 200: jsonAnswer('Without its secret.', WebhookView) },
        errors: ['notFound'],
      },
      handle: async (userId, _exchange, parameters) =>
        jsonReply(200, webhookView(found(await endpoints.find(userId, idOf(parameters))))),
    },
    {
      method: 'PUT',
      path: '/{id}',
      operation: {
        id: 'changeWebhook',
        summary: 'Change a webhook',
        description: 'What is left out stays. While it is switched off, events are not kept for it.',
        parameters: [idParameter],
        requestBody: jsonBody(WebhookChange),
        responses: { 200: jsonAnswer('As it is now.', WebhookView) },
        errors: ['notFound'],
      },
      async handle(userId, exchange, parameters) {
        const change = await readJson(exchange, WebhookChange);
        if (change.url !== undefined) checked(posts, change.url);
        const changed = found(await endpoints.change(userId, idOf(parameters), change));
        hurry();
        return jsonReply(200, webhookView(changed));
      },
    },
    {
      method: 'DELETE',
      path: '/{id}',
      operation: {
        id: 'deleteWebhook',
        summary: 'Delete a webhook',
        description: 'What waits for it is not sent any more.',
        parameters: [idParameter],
        responses: { 204: { description: 'It is gone.' } },
        errors: ['notFound'],
      },
      async handle(userId, _exchange, parameters) {
        if (!(await endpoints.remove(userId, idOf(parameters)))) throw new Failure('notFound', 'the webhook');
        return noContent;
      },
    },
    {
      method: 'POST',
      path: '/{id}/rotate',
      operation: {
        id: 'rotateWebhookSecret',
        summary: 'Make a new secret',
        description: 'For 24 hours messages are signed by the one before as well, the new one first.',
        parameters: [idParameter],
        responses: { 200: jsonAnswer('With its new secret.', WebhookWithSecret) },
        errors: ['notFound'],
      },
      handle: async (userId, _exchange, parameters) =>
        jsonReply(200, webhookView(found(await endpoints.rotate(userId, idOf(parameters))))),
    },
  ];
}

function deliveryRoutes(parts: WebhookRouteParts): WebhookRoute[] {
  const { endpoints, deliveries, hurry } = parts;
  const assertSeldom = limitedTo(RETRIES);
  return [
    testRoute(parts),
    {
      method: 'GET',
      path: '/{id}/deliveries',
      operation: {
        id: 'listDeliveries',
        summary: 'What was sent by a webhook, and what waits',
        description: 'The newest first. Those that were delivered are kept for 7 days, those that failed for 30.',
        parameters: [idParameter, ...queryParameters(deliveryQuery)],
        responses: { 200: jsonAnswer('A page of them.', DeliveryPage) },
        errors: ['notFound'],
      },
      async handle(userId, exchange, parameters) {
        const { state = null, limit, cursor = null } = readQuery(exchange, deliveryQuery);
        const { id } = found(await endpoints.find(userId, idOf(parameters)));
        // One more says whether there is a next page.
        const listed = await deliveries.list(userId, id, { state, before: cursor, limit: limit + 1 });
        const shown = listed.slice(0, limit);
        const next = listed.length > limit ? String(shown.at(-1)?.number) : null;
        return jsonReply(200, { content: shown.map(deliveryView), next });
      },
    },
    {
      method: 'POST',
      path: '/{id}/deliveries/{delivery}/retry',
      operation: {
        id: 'retryDelivery',
        summary: 'Send one again',
        description: 'One that has failed, or was delivered. It has all its attempts again.',
        parameters: [idParameter, pathParameter('delivery', Id.describe('Of the delivery.'))],
        responses: { 204: { description: 'It is sent as soon as it can be.' } },
        errors: ['notFound', 'tooManyRequests'],
      },
      async handle(userId, _exchange, parameters) {
        assertSeldom(userId);
        const delivery = Id.safeParse(parameters['delivery']);
        const isFound = delivery.success && (await deliveries.sendAgain(userId, idOf(parameters), delivery.data));
        if (!isFound) throw new Failure('notFound', 'the delivery');
        hurry();
        return noContent;
      },
    },
  ];
}

function testRoute({ endpoints, posts }: WebhookRouteParts): WebhookRoute {
  const assertSeldom = limitedTo(TESTS);
  return {
    method: 'POST',
    path: '/{id}/test',
    operation: {
      id: 'testWebhook',
      summary: 'Send a test',
      description:
        'A message of the type `webhook.test`, signed as all others, once: the answer says what came of it. It is not among the deliveries.',
      parameters: [idParameter],
      responses: { 200: jsonAnswer('What came of it.', TestResult) },
      errors: ['notFound', 'tooManyRequests'],
    },
    async handle(userId, _exchange, parameters) {
      const { id, url } = found(await endpoints.find(userId, idOf(parameters)));
      assertSeldom(userId);
      const secrets = await endpoints.secrets(userId, id);
      const startedMs = performance.now();
      const body = JSON.stringify({
        type: 'webhook.test',
        timestamp: new Date().toISOString().slice(0, 19),
        data: { id },
      });
      const attempt = await post(posts, url, { id: messageId(timeId()), body }, secrets);
      return jsonReply(200, testResult(attempt, performance.now() - startedMs));
    },
  };
}
