// GET /web/quota: what is left of the signed-in user's hour, without taking a unit of it.
import { z } from 'zod';
import { limitOf, type Plans } from '../config/plans.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer } from '../http/schema.js';
import type { AdmissionStore } from './admission.js';

export interface QuotaRouteParts {
  readonly admission: Pick<AdmissionStore, 'quotaOf'>;
  readonly plans: Plans;
}

const Hour = z.object({
  limit: z.int().min(1).describe('Scans per hour.'),
  remaining: z.int().min(0).describe('Scans left in this hour.'),
  resetTime: z.int().describe('End of the hour, in epoch seconds.'),
});

export function createQuotaRoute({ admission, plans }: QuotaRouteParts): CallerRoute {
  return {
    method: 'GET',
    path: '/web/quota',
    operation: quotaOperation,
    async handle({ userId, plan, ownLimit }) {
      const quota = await admission.quotaOf({
        userId,
        hourlyLimit: limitOf(plans, { plan, ownLimit, isSuspended: false }),
      });
      const { limit, remaining, resetEpochSeconds: resetTime } = quota;
      const hour: z.infer<typeof Hour> = { limit, remaining, resetTime };
      return jsonReply(200, hour);
    },
  };
}

const quotaOperation: Operation = {
  summary: 'What is left of your hourly quota',
  description: 'Asking takes no unit. The answer of every scan says the same in its `X-RateLimit` headers.',
  tag: 'scans',
  who: 'user',
  responses: { 200: jsonAnswer('The hour as it is now.', Hour) },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'internal', 'unavailable'],
};
