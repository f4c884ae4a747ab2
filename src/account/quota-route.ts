// GET /web/quota: what is left of the signed-in user's hour, without taking a unit of it.
import type { CallerRoute } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import type { AdmissionStore } from '../store/admission.js';

export interface QuotaRouteParts {
  readonly admission: Pick<AdmissionStore, 'quotaOf'>;
  /** Scans per hour of a plan. */
  readonly limitOf: (plan: string) => number;
}

export function createQuotaRoute({ admission, limitOf }: QuotaRouteParts): CallerRoute {
  return {
    method: 'GET',
    path: '/web/quota',
    operation: quotaOperation,
    async handle({ userId, plan }) {
      const quota = await admission.quotaOf({ userId, hourlyLimit: limitOf(plan) });
      const { limit, remaining, resetEpochSeconds } = quota;
      return jsonReply(200, { limit, remaining, resetTime: resetEpochSeconds });
    },
  };
}

const quotaOperation: Operation = {
  summary: 'What is left of your hourly quota',
  description: 'Asking takes no unit. The answer of every scan says the same in its `X-RateLimit` headers.',
  tag: 'scans',
  who: 'user',
  responses: {
    200: {
      description: 'The hour as it is now.',
      content: {
        'application/json': {
          schema: {
            type: 'object',
            additionalProperties: false,
            required: ['limit', 'remaining', 'resetTime'],
            properties: {
              limit: { type: 'integer', minimum: 1, description: 'Scans per hour.' },
              remaining: { type: 'integer', minimum: 0, description: 'Scans left in this hour.' },
              resetTime: { type: 'integer', description: 'End of the hour, in epoch seconds.' },
            },
          },
        },
      },
    },
  },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'internal', 'unavailable'],
};
