// /web/billing/**: what the signed-in user pays for, and the ways to change it.
import { z } from 'zod';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply, readJson, readOptionalJson } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, jsonBody } from '../http/schema.js';
import { type Billing, State } from './billing.js';

const checkoutBody = z.strictObject({ plan: z.string().min(1).max(32) });
const syncBody = z.strictObject({
  checkoutSessionId: z
    .string()
    .regex(/^cs_(test|live)_[A-Za-z0-9]{1,200}$/, 'must look like cs_live_... or cs_test_...')
    .optional(),
});

export function createBillingRoutes(billing: Billing): CallerRoute[] {
  return [
    {
      method: 'GET',
      path: '/web/billing/me',
      operation: meOperation,
      handle: async ({ userId }) => jsonReply(200, await billing.me(userId)),
    },
    {
      method: 'POST',
      path: '/web/billing/checkout-session',
      operation: checkoutOperation,
      async handle({ userId }, exchange) {
        // Before the body is looked at: a service without billing says that first.
        billing.active();
        const { plan } = await readJson(exchange, checkoutBody);
        return jsonReply(200, await billing.checkout(userId, plan));
      },
    },
    {
      method: 'POST',
      path: '/web/billing/portal-session',
      operation: portalOperation,
      handle: async ({ userId }) => jsonReply(200, await billing.portal(userId)),
    },
    {
      method: 'POST',
      path: '/web/billing/sync',
      operation: syncOperation,
      async handle({ userId }, exchange) {
        billing.active();
        const { checkoutSessionId } = await readOptionalJson(exchange, syncBody);
        return jsonReply(200, await billing.sync(userId, checkoutSessionId ?? null));
      },
    },
  ];
}

const TOKEN_ERRORS = ['tokenMissing', 'tokenInvalid', 'tokenExpired'] as const;
const BODY_ERRORS = ['badRequest', 'bodyTooLarge', 'jsonExpected', 'uploadTooSlow'] as const;

const meOperation: Operation = {
  summary: "The caller's plan, and the plans there are",
  tag: 'billing',
  who: 'user',
  responses: { 200: jsonAnswer('As last heard from Stripe.', State) },
  errors: [...TOKEN_ERRORS, 'internal', 'unavailable'],
};

const checkoutOperation: Operation = {
  summary: 'Opens a checkout at Stripe',
  description: 'A checkout for the same plan that is still open is returned again; one for another plan is ended.',
  tag: 'billing',
  who: 'user',
  requestBody: jsonBody(checkoutBody),
  responses: { 200: jsonAnswer('Send the buyer to `url`.', z.object({ id: z.string(), url: z.url() })) },
  errors: [...TOKEN_ERRORS, 'crossSite', ...BODY_ERRORS, 'conflict', 'internal', 'unavailable'],
};

const portalOperation: Operation = {
  summary: "Opens Stripe's customer portal: change or cancel the subscription, payment methods, invoices",
  tag: 'billing',
  who: 'user',
  responses: { 200: jsonAnswer('Send the customer to `url`.', z.object({ url: z.url() })) },
  errors: [...TOKEN_ERRORS, 'crossSite', 'conflict', 'internal', 'unavailable'],
};

const syncOperation: Operation = {
  summary: "Asks Stripe what the caller has, and makes it the caller's plan",
  description: 'For the return from a checkout, which can be faster than the webhook.',
  tag: 'billing',
  who: 'user',
  requestBody: jsonBody(syncBody, { isRequired: false }),
  responses: { 200: jsonAnswer('As Stripe says now.', State) },
  errors: [...TOKEN_ERRORS, 'crossSite', 'foreignCheckout', 'notFound', ...BODY_ERRORS, 'internal', 'unavailable'],
};
